"""Wrong input as a user meets it: exit code 2, a line that says what is allowed and what to write, nothing touched."""

import json
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from fmnas.platform.cli import main
from fmnas.platform.config.errors import format_value, version_hint
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import LONGEST, ConfigError
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.registry import OPTIMIZERS, Options

HERE = "problem: func2c\noptimizers: [random]\ninitial_design: 2\nbudget: {evaluations: 20}\nfidelity: {epochs: 1}\n"
GOOD = {**yaml.safe_load(HERE), "name": "t"}
LIST = "`fmnas list optimizers`"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], text: str, *overrides: str) -> str:
    """What `fmnas run` says of a configuration that it must refuse."""
    Path("my.yaml").write_text(text)
    flags = [flag for override in overrides for flag in ("-o", override)]
    assert main(["run", "my.yaml", *flags, "-o", "workers.kind=in-process"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("fmnas: ")
    for talk in ("Traceback", "Input should", "Config instance", "unicode string", "pydantic", "constructor"):
        assert talk not in message
    assert [path.name for path in Path().iterdir()] == ["my.yaml"]
    return message


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("optimizers=random", "optimizers = 'random': it must be a list: write [random]"),
        ("optimizers={name: bo-fm}", "optimizers = {name: 'bo-fm'}: it must be a list: write [{name: bo-fm}]"),
        ("optimizers=5", "optimizers = 5: it must be a list: write [NAME, NAME]"),
        ("optimizers=[]", f"optimizers = []: name at least one ({LIST})"),
        ("optimizers=[random, null]", "optimizers.1 = null: it must be a name, or {name: NAME, KEY: VALUE}"),
        ("optimizers=[{nme: bo-fm}]", "optimizers.0 = {nme: 'bo-fm'}: it has no name. Did you mean 'name' for 'nme'?"),
        ("optimizers=[{bo-fm: {mode: paper}}]", "it has no name: write {name: NAME, KEY: VALUE}"),
        (
            "optimizers=[{name: regularized-evolution, population: 5, tournament: 20}]",
            "optimizers.0.tournament = 20: it must be at most the population, 5",
        ),
        (
            "optimizers=[{name: bo-fm, kernel: moddif, options: {kernel: modlap}}]",
            "'kernel' stands beside the name and under options: keep one of the two",
        ),
        (
            "optimizers=[{name: bo-fm, options: {concurrency: 2}}]",
            "'concurrency' stands under options: write it beside",
        ),
        ("optimizers=[{name: bo-fm, options: 5}]", "optimizers.0.options = 5: it must be a mapping: write options: {"),
        ("optimizers=[{name: bo-fm, 1: 2}]", "optimizers.0.options.1 = 1: it must be text"),
        ("fidelity=5", "fidelity = 5: it must be a mapping: write fidelity: {epochs: 5}"),
        ("fidelity=null", "fidelity = null: it must be a mapping: write fidelity: {epochs: 5}"),
        ("budget=30", "budget = 30: it must be a mapping: write budget: {evaluations: 30}"),
        ("budget={seconds: 5}", "budget.evaluations: missing; it is required: write e.g. budget: {evaluations: 20}"),
        ("budget={1: 2}", "budget.1 = 1: a key must be a word"),
        ("data.train=100", "data.train = 100: func2c does not take it (of data.* it takes none, it has no data)"),
        ("tracking.experiment=''", "tracking.experiment = '': it must not be empty"),
        ("tracking.uri=''", "tracking.uri = '': it must not be empty"),
        ("tracking.enabled=maybe", "tracking.enabled = 'maybe': it must be true or false"),
        ("seeds=100000", "seeds = 100000: it must be at most 1000"),
        ("repeats=1001", "repeats = 1001: it must be at most 1000"),
        ("budget.evaluations=100000000", "budget.evaluations = 100000000: it must be at most 10000000"),
        ("budget.seconds=1.0e+300", "budget.seconds = 1e+300: it must be at most 1000000000.0"),
        ("workers.gpus=.inf", "workers.gpus = .inf: it must be a finite number"),
        ("workers.grace_seconds=.nan", "workers.grace_seconds = .nan: it must be a finite number"),
        ("workers.cpus=1e-3", "workers.cpus = '1e-3': it must be a number, which YAML takes for one: 1e-3 is text"),
        ("workers.cpus=1.0e-300", "workers.cpus = 1e-300: it must be at least 0.0001"),
        ("workers.count=x", "workers.count = 'x': it must be a whole number of at least 1 and at most 100000, or auto"),
        ("seed=0x" + "f" * 5000, "it must be below 18446744073709551616"),
        ("seed=" + "9" * 5000, "looks like a date or a number and is none: put it in quotes"),
        ("name=2001-99-99", "'2001-99-99' looks like a date or a number and is none: put it in quotes"),
        ("repeats=&a [*a]", "it must be a whole number"),
        ("repeats=" + "[" * 3000, "it is nested too deeply"),
        ("budget={evaluations: 3, evaluations: 4}", "'evaluations' is given twice"),
        ("optimizers.².name=x", "'optimizers.².name' is not a key of the configuration: a list has numbers for keys"),
        ("optimizers.bo-fm.kernel=x", "a list has numbers for keys, here 0 to 0"),
        ("a\nb=1", "'a\\nb': unknown key"),
    ],
    ids=lambda text: text[:40],
)
def test_a_wrong_override_is_answered_with_what_to_write(
    override: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = told(capsys, HERE, override)
    assert line in message
    assert all(len(each) < 4 * LONGEST for each in message.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\nb: 2\n", "my.yaml, line 1, column 4: the [ that begins here is not closed"),
        ("a: {b: 1\n", "my.yaml, line 1, column 4: the { that begins here is not closed"),
        ("a: 1\nb: 'x\nc: 2\n", "my.yaml, line 2, column 4: the quote that begins here is not closed"),
        ("a: b: c\n", "my.yaml, line 1, column 5: a second colon in one line"),
        ("a:\n\tb: 1\n", "my.yaml, line 2, column 1: no value begins with this character: indent with spaces"),
        ("a:\n  - b\n c: 3\n", "my.yaml, line 3, column 2: it is no YAML from here on"),
        ("a: 1\nb: \x07\n", "my.yaml, line 2, column 4: a character that YAML does not allow (0x7)"),
        ("a: !!python/object:os.system b", "my.yaml, line 1, column 4: a tag (!...) that is not allowed"),
        ("a: *b\n", "my.yaml, line 1, column 4: an alias"),
        ("a: !!bool maybe\n", "my.yaml, line 1, column 4: 'maybe' looks like"),
        ("{[1]: 2}", "my.yaml, line 1, column 2: a key must be a word"),
        (
            "repeats: 3\n" + HERE + "repeats: 4\n",
            "my.yaml, line 7, column 1: 'repeats' is given twice, first in line 1",
        ),
        (HERE.replace("{epochs: 1}", "{epochs: 1, epochs: 2}"), "my.yaml, line 5, column 23: 'epochs' is given twice"),
        ("- a\n", "my.yaml: a configuration is a mapping of keys such as problem, optimizers, budget"),
        ("problem: func2c\noptimizers: [random]\nfidelity: {epochs: 1}", "write e.g. budget: {evaluations: 20}"),
        ("problem: joint\noptimizers: [random]\nbudget: {evaluations: 9}", "write e.g. fidelity: {epochs: 5}"),
        (
            "problem: func2c\nbudget: {evaluations: 9}",
            "optimizers: missing; it is required: write e.g. optimizers: [bo",
        ),
    ],
)
def test_a_wrong_file_is_answered_with_its_place(text: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = told(capsys, text)
    assert line in message
    if ", line " in line:
        assert len(message.splitlines()) == 1


def test_keys_may_be_merged_from_an_anchor() -> None:
    Path("my.yaml").write_text(HERE.replace("{epochs: 1}", "&f {epochs: 1}") + "workers: {cpus: 2}\n")
    with pytest.raises(ConfigError, match="unknown key; allowed are every"):
        load_config("my.yaml", ["checkpoints={<<: {a: 1}, every: 2}"])
    assert load_config("my.yaml", ["budget={<<: {evaluations: 3}, evaluations: 7}"]).budget.evaluations == 7


def leaves(schema: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a configuration that holds no section, and its type."""
    for key, field in schema.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, BaseModel):
            yield from leaves(kind, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", kind


LEAVES = dict(leaves(Config))
FLOATS = [key for key, kind in LEAVES.items() if float in (kind, *get_args(kind))]


def with_value(key: str, value: object) -> dict[str, Any]:
    data = yaml.safe_load(HERE) | {"name": "t"}
    section, _, last = key.rpartition(".")
    (data.setdefault(section, {}) if section else data)[last] = value
    return data


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")], ids=str)
@pytest.mark.parametrize("key", LEAVES)
def test_no_key_takes_a_number_that_is_not_finite(key: str, value: float) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(with_value(key, value), "here")
    assert f"{key} = {format_value(value)}: " in str(caught.value)
    assert ("it must be a finite number" in str(caught.value)) == (key in FLOATS)


def test_the_keys_that_take_fractions_are_among_those_tried() -> None:
    expected = {"budget.seconds", "budget.trial_seconds", "workers.cpus", "workers.gpus", "workers.grace_seconds"}
    assert expected <= set(FLOATS)


def test_an_option_takes_no_number_that_is_not_finite() -> None:
    class Mine(Options):
        rate: float = 0.1

    assert Mine(rate=0.2).rate == 0.2
    with pytest.raises(ValueError, match="finite"):
        Mine(rate=float("inf"))
    for name, row in OPTIMIZERS.items():
        for option in row.options.model_fields:
            entry = {"name": name, option: float("inf")}
            with pytest.raises(ConfigError, match=rf"optimizers\.0\.{option} = \.inf: "):
                check_config({**GOOD, "optimizers": [entry]}, "here")


def test_a_default_tournament_may_exceed_a_small_population() -> None:
    entry = {"name": "regularized-evolution", "population": 5}
    assert check_config({**GOOD, "optimizers": [entry]}, "here").optimizers[0].options == {"population": 5}


def test_a_value_is_shown_as_yaml_has_it_and_cut() -> None:
    assert format_value({"a": [None, True, "b c"], "d": float("inf")}) == "{a: [null, true, 'b c'], d: .inf}"
    assert format_value("x" * 5000) == f"'{'x' * (LONGEST - 1)}..."
    endless: list[Any] = []
    endless.append(endless)
    assert format_value(endless) == "[" * LONGEST + "..."
    bomb: list[Any] = ["x"] * 10
    for _ in range(30):
        bomb = [bomb] * 10
    assert len(format_value(bomb)) == LONGEST + 3


@pytest.mark.parametrize("where", ["config.yaml", "journal.jsonl"])
def test_what_another_version_wrote_is_not_to_be_mended(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    little = ["workers.kind=in-process", "tracking.enabled=false", "optimizers=[random]", "budget.evaluations=5"]
    assert main(["run", "smoke", *(flag for o in little for flag in ("-o", o)), "--out", "out"]) == 0
    path = Path("out", where)
    old, new = ("seeds:", "future: 1\nseeds:") if where == "config.yaml" else ('"seeds":', '"future":1,"seeds":')
    path.write_text(path.read_text().replace(old, new, 1))
    if where == "journal.jsonl":  # as that version would have written it
        records = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        with Journal(path) as journal:
            for record in records:
                journal.append({key: value for key, value in record.items() if key not in ("n", "crc")})
    for command in ("resume", "report", "replay"):
        capsys.readouterr()
        if command == "replay" and where == "config.yaml":
            continue  # it goes by the journal alone
        assert main([command, "out"]) == 2
        message = capsys.readouterr().err
        assert f"out/{where}:\n  future: unknown key" in message
        assert "it is of another version than this one, fmnas " in message
        assert "Mend it there" not in message


def test_the_version_that_began_an_experiment_is_named_where_it_is_known() -> None:
    assert version_hint("fmnas 9.1").endswith(": go on with fmnas 9.1.")
    with pytest.raises(ConfigError, match=r"go on with fmnas 9\.1\."):
        check_config({**GOOD, "future": 1}, "here", version_hint("fmnas 9.1"))


def test_a_file_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("bytes.yaml").write_bytes(b"name: \xff\n")
    for name, words in {
        "x" * 300: "cannot be read (File name too long): give a YAML file",
        "folder": "configuration folder: is a folder; give a YAML file",
        "bytes.yaml": "configuration bytes.yaml is no text: give a YAML file, in UTF-8",
    }.items():
        assert main(["run", name]) == 2
        assert words in capsys.readouterr().err


def test_a_folder_named_as_a_shipped_configuration_does_not_hide_it() -> None:
    Path("smoke").mkdir()
    assert load_config("smoke").name == "smoke"


@pytest.mark.parametrize("port", ["0", "65536", "²", "9" * 5000, "-1", "http"])
def test_a_port_that_is_none_is_named(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ui", "--port", port])
    assert ended.value.code == 2
    assert "it must be a number from 1 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "code"), [("rich", 1), ("numpy", 1), ("pydantic", 2), ("ray", 2)])
def test_a_package_that_is_missing_is_named(name: str, code: int) -> None:
    command = f"import sys; sys.modules[{name!r}] = None; from fmnas.platform.cli import main; sys.exit(main())"
    arguments = ["run", "smoke", "--out", "out"]
    done = subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("fmnas: ")
    assert name in line
    assert "install" in line
    shutil.rmtree("out", ignore_errors=True)
