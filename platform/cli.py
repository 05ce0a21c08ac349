"""The command line: `fmnas --help` lists the commands.

Exit codes: 0 done, 1 the experiment failed (resumable), 2 wrong input, 130 interrupted (resumable).
"""

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias

try:
    from importlib.metadata import version

    from fmnas.platform import commands
    from fmnas.platform.config.uri import redact
    from fmnas.platform.display.console import PLAIN, BestEffortStream, make_console, print_error
    from fmnas.platform.display.log import JSON, PROGRESS_MODES, log_end
    from fmnas.platform.errors import ExitCode, ExperimentFailed
    from fmnas.platform.experiment.run_directory import latest_run_directory
    from fmnas.search_spaces import FmnasError
    from fmnas.trainers.memory import tune_malloc
except KeyboardInterrupt:
    sys.exit(130)
except ImportError as error:
    sys.exit(f"fmnas: {error}: a required package is missing or broken; install fmnas again (see README.md)")

_FULL = (errno.ENOSPC, errno.EDQUOT)
RUNS, LATEST = Path("runs"), "default: the run directory in runs/ that was written to last"
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code. Errors of the user's input or code are reported in one line."""
    sys.stdout, sys.stderr = sys.stdout or _open_null(1), sys.stderr or _open_null(2)  # closed by the shell: `>&-`
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=PLAIN if stream is sys.stdout else "backslashreplace")
    tune_malloc()  # suggestions and trainings allocate large buffers; the process is the command's
    try:
        parser, commands_by_name = _make_parser()
        words = sys.argv[1:] if arguments is None else arguments
        if not words:
            parser.exit(ExitCode.WRONG_INPUT, parser.format_help())
        if words[0] not in commands_by_name and not words[0].startswith("-"):
            _refuse_similar(parser, words[0], "command", commands_by_name)
        namespace, unknown = parser.parse_known_args(arguments)
        if unknown:
            chosen = commands_by_name.get(words[0], parser)
            if unknown[0].startswith("-"):
                options = re.findall(r"--\w+", chosen.format_usage())
                _refuse_similar(chosen, unknown[0].partition("=")[0], "option", options)
            chosen.error(f"unknown arguments: {' '.join(unknown)}")
        parsed = vars(namespace)
        command = parsed.pop("command")
        try:
            code = int(command(**_fill_in_directory(parsed)))
            _flush_output()
            return code
        except (FmnasError, ExperimentFailed, ImportError, SystemExit, OSError) as error:
            return _report_error(error, parsed.get("progress") == JSON)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        with suppress(OSError):  # Python reports a full disk itself
            _flush_output()


def _flush_output() -> None:
    """Flush standard output, whose reader may have left, e.g. `| head`. Raises OSError for a full disk."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno in _FULL:
            raise
        BestEffortStream(sys.stdout).discard_output()


def _refuse_similar(parser: argparse.ArgumentParser, word: str, kind: str, names: Iterable[str]) -> None:
    """Exit with the usage of a parser if a word that it does not know is similar to names that it does."""
    if similar := get_close_matches(word.lower(), names, n=2):
        parser.error(f"{word!r}: unknown {kind}; did you mean {' or '.join(map(repr, similar))}?")


def _open_null(descriptor: int) -> TextIOWrapper:
    """Return the null file, open at a descriptor that was closed."""
    if (null := os.open(os.devnull, os.O_WRONLY)) != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    return open(descriptor, "w")


def _fill_in_directory(parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with the latest run directory where none was given."""
    if "directory" in parsed and parsed["directory"] is None:
        return {**parsed, "directory": latest_run_directory(RUNS)}
    if parsed.get("directories") == []:
        return {**parsed, "directories": [latest_run_directory(RUNS)]}
    return parsed


def _report_error(error: BaseException, is_json: bool) -> int:
    """Report the error of a command in one line; return the exit code. A bug in fmnas is raised again."""
    message = str(error)
    if isinstance(error, OSError):
        if error.errno not in (errno.EPIPE, *_FULL):
            raise error
        if error.errno == errno.EPIPE:
            BestEffortStream(sys.stdout).discard_output()
            return ExitCode.DONE
        BestEffortStream(sys.stdout).flush()  # discards what cannot be written: this disk may be another one
        message = f"{error}: free some space and repeat the command"
    if isinstance(error, ImportError):
        if (error.name or "").startswith("fmnas"):
            raise error
        message = f"{error}: install it; `fmnas doctor` lists all missing packages"
    elif isinstance(error, SystemExit):
        message = f"user code called sys.exit({error.code!r})"
    is_wrong_input = isinstance(error, FmnasError | ImportError)
    status, code = ("wrong input", ExitCode.WRONG_INPUT) if is_wrong_input else ("failed", ExitCode.FAILED)
    reason = redact(message)
    print_error(reason)
    if is_json:
        log_end(make_console(), status, code, {"reason": reason, "resume_command": None})
    return code


def _make_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser, and those of the commands by name."""
    parser = argparse.ArgumentParser(
        prog="fmnas", description="Compare optimizers of networks and their training, at equal budgets."
    )
    parser.add_argument("--version", action="version", version=f"fmnas {version('fmnas')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run_commands(subparsers)
    _add_other_commands(subparsers)
    return parser, subparsers.choices


def _add_command(subparsers: Subparsers, function: Callable[..., int], has_directory: bool = False) -> Any:
    """Add the command of a function, whose docstring is the help text. has_directory: whether it takes DIR."""
    text, name = function.__doc__ or "", function.__name__.rstrip("_")
    first = text.partition("\n")[0].removesuffix(".")
    description = " ".join(text.split()).replace("%", "%%")
    parser = subparsers.add_parser(name, help=first[:1].lower() + first[1:], description=description)
    parser.set_defaults(command=function)
    if has_directory:
        parser.add_argument("directory", type=Path, metavar="DIR", nargs="?", help=LATEST)
    return parser


def _add_overrides(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("-o", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help=text)


def _add_run_commands(subparsers: Subparsers) -> None:
    run = _add_command(subparsers, commands.run)
    run.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of a shipped one")
    _add_overrides(run, "override a key; may be given several times")
    run.add_argument("--out", type=Path, metavar="DIR", help="run directory; default: runs/NAME")
    resume = _add_command(subparsers, commands.resume, has_directory=True)
    extend = _add_command(subparsers, commands.extend, has_directory=True)
    _add_overrides(extend, "a key that grows, e.g. repeats=9 or optimizers+=tpe")
    retrain = _add_command(subparsers, commands.retrain, has_directory=True)
    for name, text in (
        ("epochs", "epochs of each training; default: of the experiment"),
        ("images", "training images; default: the training and validation images of the experiment"),
        ("seeds", "trainings of each configuration; default: as in the experiment"),
    ):
        retrain.add_argument(f"--{name}", type=_number(int, 1, 10**9), metavar="N", help=text)
    retrain.add_argument("--save", action="store_true", help="keep the trained networks, in DIR/models")
    for parser in (run, resume, extend, retrain):
        parser.add_argument("--address", help="of a Ray cluster, or auto; default: start one on this machine")
        parser.add_argument("--progress", choices=PROGRESS_MODES, help="default: live in a terminal, else lines")


def _add_other_commands(subparsers: Subparsers) -> None:
    status = _add_command(subparsers, commands.status, has_directory=True)
    status.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")
    report = _add_command(subparsers, commands.report)
    report.add_argument("directories", type=Path, metavar="DIR", nargs="*", help=LATEST)
    report.add_argument("--out", type=Path, metavar="DIR", help="default: in DIR; of several: runs/report-NAMES")
    record = _add_command(subparsers, commands.record)
    record.add_argument("directories", type=Path, metavar="DIR", nargs="+")
    record.add_argument("--out", type=Path, metavar="FILE", required=True, help="of the results; ends with .npz")
    export = _add_command(subparsers, commands.export, has_directory=True)
    export.add_argument("--optuna", metavar="URL", help="a study per run into this storage, e.g. sqlite:///studies.db")
    export.add_argument("--deepcave", type=Path, metavar="FOLDER", help="a run of DeepCAVE per run into this folder")
    pack = _add_command(subparsers, commands.pack, has_directory=True)
    pack.add_argument("--out", type=Path, metavar="FILE", help="default: DIR.zip, beside DIR")
    verify = _add_command(subparsers, commands.verify)
    verify.add_argument("pack", type=Path, metavar="PACK")
    verify.add_argument("--replay", action="store_true", help="ask the optimizers again; imports code that PACK names")
    for function in (commands.replay, commands.sync):
        _add_command(subparsers, function, has_directory=True)
    ui = _add_command(subparsers, commands.ui, has_directory=True)
    ui.add_argument("--port", type=_number(int, 1, 65535), default=5000, help="1 to 65535; default: 5000")
    config = _add_command(subparsers, commands.config)
    config.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of a shipped one")
    _add_overrides(config, "override a key; may be given several times")
    config.add_argument("--address", help="as for run; nothing is asked of the cluster")
    config.add_argument("--out", type=Path, metavar="DIR", help="as for run; ignored, nothing is written")
    listing = _add_command(subparsers, commands.list_)
    kinds = ("problems", "optimizers", "configs", "observers")
    listing.add_argument("what", choices=kinds, metavar="|".join(kinds), help="what to list")
    listing.add_argument("--options", action="store_true", help="show the options of optimizers")
    check = _add_command(subparsers, commands.check)
    check.add_argument(
        "optimizer", metavar="OPTIMIZER", help="module:Class, FILE.py:Class, or a name from `fmnas list optimizers`"
    )
    _add_overrides(check, "an option of the optimizer")
    check.add_argument(
        "--seconds", type=_number(float, 0.001, 1e6), default=60, metavar="N", help="timeout of a rule; default: 60"
    )
    _add_command(subparsers, commands.doctor).add_argument("--address", help="of a Ray cluster, or auto")


def _number(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    """Return a converter of an argument to a number from `least` to `most`."""

    def convert(text: str) -> float:
        with suppress(ValueError):
            if least <= kind(text) <= most:
                return kind(text)
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number from {least:g} to {most:g}")

    return convert


if __name__ == "__main__":
    sys.exit(main())
