"""The command line as a user meets it: exit codes, messages, and nothing touched that should not be."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlflow
import pytest
import yaml

from fmnas.platform import commands
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.display.summary import called
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.runner.driver import Driver
from fmnas.trainers.functions.synthetic import FUNC2C
from fmnas.trainers.problem import authors_points

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
LITTLE = ["-o", "optimizers=[random]", "-o", "budget.evaluations=6"]


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a call that must end with exit code 2."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


def results(out: Path) -> dict[tuple[str, str], list[str]]:
    """(run, trial) -> configuration and objective, of a run directory of Func2C."""
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {(r["run"], r["trial"]): [r[name] for name in ("x1", "x2", "h1", "h2", "objective")] for r in rows}


@pytest.mark.usefixtures("all_figures")
def test_a_run_leaves_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["run", "smoke", *FAST, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "bo-fm" in printed
    assert str(out / "report" / "index.html") in printed
    names = {"config.yaml", "journal.jsonl", "environment.json", "trials.csv", "summary.json", "report"}
    assert {path.name for path in out.iterdir()} == names
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["optimizer"] for row in rows} == {"bo-fm", "regularized-evolution", "bohb", "random"}
    needed = (
        "run optimizer repeat trial origin epochs objective error flops flops_ratio diverged status suggest_seconds "
        "train_seconds started_at finished_at worker attempt x1 x2 h1 h2"
    )
    assert set(needed.split()) <= set(rows[0])
    summary = json.loads((out / "summary.json").read_text())
    for name, row in summary["optimizers"].items():
        best = min(float(r["objective"]) for r in rows if r["optimizer"] == name and r["epochs"] == "3")
        assert row["mean"] == pytest.approx(best)


def test_the_same_experiment_gives_the_same_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for name in ("a", "b"):
        assert main(["run", "smoke", *FAST, "--out", str(tmp_path / name)]) == 0
        with (tmp_path / name / "trials.csv").open() as file:
            times = ("suggest_seconds", "train_seconds", "started_at", "finished_at")
            tables.append([{k: v for k, v in row.items() if k not in times} for row in csv.DictReader(file)])
    assert tables[0] == tables[1]
    assert main(["run", "smoke", *FAST, "-o", "seed=1", "--out", str(tmp_path / "c")]) == 0
    assert (tmp_path / "c" / "trials.csv").read_text().split("\n")[1] != tables[0][0]


def test_the_authors_points_can_be_asked_for_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    flags = ["-o", "initial_design=authors", "-o", "optimizers=[random, regularized-evolution]", "-o", "repeats=2"]
    assert main(["run", "smoke", *FAST, *flags, "-o", "budget.evaluations=11", "--out", str(out)]) == 0
    rows = results(out)
    assert len(rows) == 44
    for repeat in range(2):
        points = [[str(value) for value in point.values()] for point in authors_points(FUNC2C.space, repeat)]
        for run in (f"random/repeat-{repeat}", f"regularized-evolution/repeat-{repeat}"):
            assert [rows[run, str(trial)][:4] for trial in range(10)] == points
    journal = out / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:20]))
    assert main(["resume", str(out)]) == 0
    assert results(out) == rows


def test_an_existing_run_directory_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)])
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    message = complaint(["run", "smoke", *FAST, "--out", str(out)], capsys)
    assert f"fmnas resume {out}" in message
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_folder_with_other_things_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    message = complaint(["run", "smoke", *FAST, "--out", str(tmp_path)], capsys)
    assert "not empty" in message
    assert "--out" in message
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder_to_be_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.yaml"
    file.touch()
    assert f"{file} is a file: give a run directory" in complaint(["run", "smoke", *FAST, "--out", str(file)], capsys)


def test_options_are_those_of_optimizers(capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("problems", "configs"):
        assert f"--options: {what} have none" in complaint(["list", what, "--options"], capsys)


def test_the_ui_is_of_the_latest_experiment_that_mlflow_knows(tmp_path: Path) -> None:
    for age, (name, enabled) in enumerate((("newest", False), ("newer", True), ("oldest", True))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").write_text(f"name: {name}\ntracking: {{enabled: {str(enabled).lower()}}}\n")
        (folder / "journal.jsonl").touch()
        os.utime(folder / "journal.jsonl", (1e9 - age, 1e9 - age))
    assert commands._latest_tracked(tmp_path).name == "newer"


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "run"
    message = complaint(["run", "smoke", *FAST, "--out", str(out)], capsys)
    assert str(out) in message
    assert "--out" in message


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("problem=mnist", ["problem = 'mnist'", "joint"]),
        ("initial_design=autors", ["initial_design = 'autors'", "at least 0 and at most 100000, or authors"]),
        ("initial_design=authors", ["budget.evaluations = 8", "initial_design = 'authors' (10 points)"]),
        ("budget.evaluations=2", ["budget.evaluations = 2", "initial_design = 4"]),
        ("tracking.uri=file:///tmp/x", ["tracking.uri", "sqlite:///"]),
        ("nonsense=1", ["nonsense: unknown key"]),
    ],
)
def test_wrong_input_leaves_nothing_behind(
    override: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "smoke", "-o", "workers.kind=in-process", "-o", override, "--out", str(tmp_path / "run")]
    message = complaint(arguments, capsys)
    for word in words:
        assert word in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["data.root=nowhere"], ["nowhere"]),
        (["data.train=50000", "data.validation=20000"], ["data.train = 50000", "60000"]),
    ],
)
def test_data_that_will_not_do_are_named_before_anything_runs(
    overrides: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [flag for override in overrides for flag in ("-o", override)]
    message = complaint(["run", "quickstart", *FAST, *flags, "--out", str(tmp_path / "run")], capsys)
    for word in words:
        assert word in message.replace(",", "")
    assert not (tmp_path / "run").exists()


def test_a_truncated_dataset_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (raw / f"{name}-ubyte").write_bytes(b"\x00\x00\x08\x03\x00\x00\xea\x60")
    arguments = ["run", "quickstart", *FAST, "-o", f"data.root={tmp_path}", "--out", str(tmp_path / "run")]
    message = complaint(arguments, capsys)
    assert "ubyte" in message
    assert not (tmp_path / "run").exists()


def test_a_changed_configuration_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)])
    path = out / "config.yaml"
    data = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**data, "seed": 5, "workers": {"kind": "in-process", "attempts": 9}}))
    journal = (out / "journal.jsonl").read_bytes()
    message = complaint(["resume", str(out)], capsys)
    assert "seed = 5: the experiment began with 0" in message
    assert "attempts =" not in message
    assert (out / "journal.jsonl").read_bytes() == journal


@pytest.mark.parametrize(
    ("change", "way"),
    [
        ({"optimizers": ["random", "bohb"]}, "-o optimizers+=NEW`."),
        ({"repeats": 2, "budget": {"evaluations": 7}}, "-o repeats=N -o budget.evaluations=N`."),
        ({"seed": 7}, ""),
    ],
)
def test_a_changed_configuration_is_told_how_to_add_to_what_there_is(
    change: dict[str, object], way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    data = {**yaml.safe_load(load_config("smoke").to_yaml()), "optimizers": ["random"], "repeats": 1}
    config = check_config(data, "here")
    out.mkdir()
    with Journal(out / "journal.jsonl") as journal:
        journal.append({"event": "experiment", "id": "1", "config": config.model_dump(mode="json"), "at": 0.0})
    (out / "config.yaml").write_text(yaml.safe_dump({**data, **change}))
    message = complaint(["resume", str(out)], capsys)
    assert "was changed" in message
    assert way in message
    assert (f"with the file put back, `fmnas extend {out} " in message) == bool(way)


def test_an_origin_that_is_not_known_ends_the_experiment_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.baselines.random_search.RANDOM", "mine")
    assert main(["run", "smoke", *FAST, *LITTLE, "--out", str(tmp_path / "run")]) == 1
    printed = capsys.readouterr().err
    assert "random/repeat-0: the optimizer failed: SpaceError: trial 4: origin = 'mine': it must be one of" in printed
    assert "Traceback" not in printed


def test_resume_of_a_finished_experiment_shows_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)])
    first = capsys.readouterr().out.split("optimizer", 1)[1]
    trials = (out / "trials.csv").read_bytes()
    monkeypatch.setattr("fmnas.platform.runner.run.open_pool", None)  # neither workers nor data are needed
    assert main(["resume", str(out)]) == 0
    assert capsys.readouterr().out.split("optimizer", 1)[1] == first
    assert (out / "trials.csv").read_bytes() == trials


@pytest.mark.parametrize("command", ["resume", "report", "ui"])
def test_a_folder_that_is_no_run_directory_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"{tmp_path} is no run directory" in complaint([command, str(tmp_path)], capsys)


def test_failed_trials_end_with_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr("fmnas.trainers.functions.synthetic.FunctionTrainer.evaluate", broken)
    assert main(["run", "smoke", *FAST, "--out", str(tmp_path / "run")]) == 1
    printed = capsys.readouterr()
    assert "RuntimeError: no such device" in printed.err
    assert f"fmnas resume {tmp_path / 'run'}" in printed.out


@pytest.mark.parametrize("what", ["problems", "optimizers", "configs"])
def test_lists_have_a_line_each(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = {"problems": "joint", "optimizers": "bo-fm", "configs": "quickstart"}[what]
    assert any(line.startswith(expected) for line in lines)
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


@pytest.mark.usefixtures("all_figures")
def test_real_data_real_ray_real_mlflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The quickstart with less data: FashionMNIST, two workers, SQLite; then its MLflow tree."""
    out = tmp_path / "run"
    little = ["data.train=64", "data.validation=64", "seeds=2", "budget.evaluations=6", "fidelity.epochs=2"]
    flags = [flag for override in little for flag in ("-o", override)]
    assert main(["run", "quickstart", *flags, "--out", str(out)]) == 0, capsys.readouterr()
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in ("bo-fm", "regularized-evolution", "random"):
        epochs = sum(int(row["epochs"]) for row in rows if row["optimizer"] == name)
        assert 12 - 2 < epochs <= 12
    for row in rows:
        errors = [float(row["error_seed_1"]), float(row["error_seed_2"])]
        assert float(row["error"]) == pytest.approx(sum(errors) / 2)
        assert float(row["objective"]) == pytest.approx(float(row["error"]) + 0.02 * float(row["flops_ratio"]))
    assert (out / "report" / "best_cell.png").stat().st_size > 10_000
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("quickstart").experiment_id])
    assert sum("fmnas.trial" in run.data.tags for run in runs) == len(rows)


def test_ctrl_c_stops_cleanly_and_resume_goes_on(tmp_path: Path) -> None:
    """SIGINT to the whole group, as a terminal sends it; then the same trials as without it."""
    out = tmp_path / "run"
    problem = f"problem={Path(__file__).with_name('sleeping.py')}:sleeps"
    little = [problem, "optimizers=[random, bohb]", "budget.evaluations=6", "workers.count=2", "tracking.enabled=false"]
    flags = [flag for override in little for flag in ("-o", override)]
    driver = subprocess.Popen(
        [*FMNAS, "run", "smoke", *flags, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert driver.stdout is not None
    for line in driver.stdout:
        if "trial 2" in line:
            break
    os.killpg(driver.pid, signal.SIGINT)
    rest, _ = driver.communicate(timeout=120)
    assert driver.returncode == 130, rest
    assert f"fmnas resume {out}" in rest
    assert "Traceback" not in rest
    finished = (out / "trials.csv").read_text().count("finished")
    assert finished > 0
    assert main(["resume", str(out)]) == 0
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    ended = [(r["run"], r["trial"]) for r in records if r["event"] == "finished"]
    assert len(ended) == len(set(ended)) > finished
    deadline = time.monotonic() + 20
    while subprocess.run(["pgrep", "-s", str(driver.pid)], capture_output=True).stdout and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not subprocess.run(["pgrep", "-s", str(driver.pid)], capture_output=True).stdout


def test_more_gpus_than_there_are_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*LITTLE, "-o", "workers.gpus=1", "-o", "workers.count=64", "--out", str(tmp_path / "run")]
    message = complaint(["run", "smoke", *flags], capsys)
    assert "workers.gpus = 1" in message or "workers.count = 64" in message
    assert not (tmp_path / "run").exists()


def test_results_that_cannot_be_written_end_it_with_what_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)])
    shutil.rmtree(out / "report")
    (out / "report").write_text("in its place")
    capsys.readouterr()
    assert main(["resume", str(out), "--progress", "json"]) == 1
    printed = capsys.readouterr()
    ending = json.loads(printed.out.splitlines()[-1])
    assert (ending["event"], ending["status"], ending["exit_code"]) == ("ending", "failed", 1)
    assert ending["again"].endswith(f"resume {out}")
    assert "the experiment failed" in printed.err
    assert main(["resume", str(out)]) == 1
    assert f"resume {out}" in capsys.readouterr().out


def test_the_ui_says_where_mlflow_was_told_nothing_and_needs_no_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)])
    (out / "config.yaml").unlink()
    capsys.readouterr()
    assert main(["ui", str(out)]) == 2
    assert "tracking.enabled = false: MLflow has nothing of this experiment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["usage: fmnas", "an experiment", "doctor"]),
        (["list"], ["usage: fmnas list", "problems", "--options"]),
        (["rnu"], ["there is no such command", "Did you mean 'run'?"]),
        (["list", "optimizer"], ["Did you mean 'optimizers'?"]),
    ],
    ids=["nothing", "list", "unknown command", "unknown list"],
)
def test_a_command_that_is_not_there_or_lacks_something_gets_help(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    for word in words:
        assert word in printed.err


def test_the_short_name_is_printed_where_it_finds_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "fmnas"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert called() == str(program)
    monkeypatch.setenv("PATH", str(program.parent))
    assert called() == "fmnas"


def test_ctrl_c_during_the_first_imports_ends_without_a_traceback() -> None:
    code = """
import sys

class Interrupt:
    @staticmethod
    def find_spec(name, *_):
        if name == "fmnas.platform.commands":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt)
import fmnas.platform.cli
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_results_are_written_is_heeded_and_the_report_writes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("fmnas.platform.report.write.write_report", lambda *_: signal.raise_signal(signal.SIGINT))
        assert main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)]) == 130
    printed = capsys.readouterr()
    assert "stopping" in printed.err
    assert f"fmnas report {out}" in printed.out
    assert f"fmnas resume {out}" in printed.out
    assert not (out / "summary.json").exists()
    assert not (out / "driver.lock").exists()
    assert main(["report", str(out)]) == 0
    assert (out / "summary.json").exists()
    printed = capsys.readouterr()
    assert f"reading {out}" in printed.out
    assert str(out / "report" / "index.html") in printed.out


def test_the_page_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "smoke", *FAST, *LITTLE, "--out", "run"]) == 0
    assert str(tmp_path / "run" / "report" / "index.html") in capsys.readouterr().out
    assert main(["report", "run"]) == 0
    assert str(tmp_path / "run" / "report" / "index.html") in capsys.readouterr().out


def test_an_experiment_that_is_stopped_before_its_first_trial_has_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(driver: Driver) -> Ending:
        return Ending.INTERRUPTED

    out = tmp_path / "run"
    monkeypatch.setattr(Driver, "run", interrupted)
    assert main(["run", "smoke", *FAST, *LITTLE, "--out", str(out)]) == 130
    assert f"fmnas resume {out}" in capsys.readouterr().out
    assert (out / "journal.jsonl").exists()
    assert not (out / "report").exists()
    assert not (out / "trials.csv").exists()


def test_what_calls_sys_exit_has_failed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("fmnas.platform.config.source.shipped_configs", lambda: sys.exit(0))
    assert main(["list", "configs"]) == 1
    assert "sys.exit(0)" in capsys.readouterr().err


def test_a_terminal_without_utf_8_shows_a_dash_as_a_dash(tmp_path: Path) -> None:
    """One repeat has no standard error, and random search no method: both cells are a dash."""
    options = ["optimizers=[random]", "workers.kind=in-process", "tracking.enabled=false", "budget.evaluations=5"]
    command = [sys.executable, "-m", "fmnas.platform.cli", "run", "smoke", "--progress", "quiet", "--out", "run"]
    command += [part for option in options for part in ("-o", option)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path, env=environment)
    (row,) = (line.split() for line in done.stdout.decode("ascii").splitlines() if line.startswith("random   "))
    assert (row[2], row[-1]) == ("-", "-")
    assert "?" not in " ".join(row)
