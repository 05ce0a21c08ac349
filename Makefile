# make run: install, find the data, compare three optimizers. make test: install, run every test.
PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
PACKAGES := api baselines comparison integrations optimizers platform search_spaces testing trainers
# pip would compile on one core, and the packages' tests too; compileall does it on all cores, torch while pip installs
# the others. It compiles fmnas as well, which Python does not do by itself where PYTHONDONTWRITEBYTECODE is set.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
COMPILE := $(BIN)/python -m compileall -qq -x /tests/
INSTALLED := $(VENV)/.installed

.PHONY: install run test test-lowest quick check types mutants clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --constraint $(CONSTRAINTS) torch torchvision
	$(COMPILE) $(VENV)/lib & $(PIP) --constraint $(CONSTRAINTS) --editable '.[dev]' && wait
	$(PIP) --no-deps hpbandster
	$(COMPILE) -j 0 $(VENV)/lib $(PACKAGES) || true  # some are not for this Python
	touch $(INSTALLED)

# A second `make run` resumes the first, or prints its table again. To start over, remove runs/quickstart.
run: install
	@if [ -e runs/quickstart/journal.jsonl ]; then \
		$(BIN)/fmnas resume runs/quickstart; \
	else \
		$(BIN)/fmnas run configs/quickstart.yaml; \
	fi

# Three files at a time, also on two cores: many tests wait. PYTEST='-n 0' for one, as a debugger needs it.
PYTEST ?= -n 3 --dist loadfile --no-loadscope-reorder

test: install
	$(BIN)/python -m pytest $(PYTEST)

# With the oldest versions that pyproject.toml allows, in an environment of their own, for Python 3.11. The oldest Ray
# leaves files and processes to the garbage collector.
test-lowest:
	$(MAKE) test VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt PYTEST='$(PYTEST) -W ignore::ResourceWarning'

# The inner loop: without Ray, MLflow, browsers, long searches and long trainings.
quick: install
	$(BIN)/python -m pytest $(PYTEST) -m "not slow"

# What CI runs.
check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) types
	$(BIN)/python -m pytest $(PYTEST)

# Type checkers do not follow setuptools' folder mapping: show them a link.
types: install
	mkdir -p .cache/types && ln -sfn ../.. .cache/types/fmnas
	MYPYPATH=.cache/types $(BIN)/mypy $(PACKAGES:%=-p fmnas.%)

# Mutation tests: each of some ninety changes to the code must make a test fail. They take long.
mutants: install
	$(BIN)/python benchmarks/mutants.py --all

clean:
	rm -rf $(VENV) .venv-lowest .cache build *.egg-info
