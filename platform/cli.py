"""The command line: fmnas run | resume | extend | retrain | status | report | replay | ... : `fmnas --help` has all.

Exit codes: 0 done, 1 the experiment failed, 2 the input was wrong, 130 interrupted (resumable).
"""

import argparse
import codecs
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TypeAlias

try:
    from importlib.metadata import version

    from fmnas.platform import commands
    from fmnas.platform.config.uri import redact
    from fmnas.platform.display.console import PatientOutput, complain
    from fmnas.platform.display.modes import JSON, PROGRESS_MODES
    from fmnas.platform.display.summary import tell_ending
    from fmnas.platform.errors import ExitCode, ExperimentFailed
    from fmnas.search_spaces import FmnasError
    from fmnas.search_spaces.errors import did_you_mean
except KeyboardInterrupt:  # Ctrl-C right after the start
    sys.exit(130)
except ImportError as missing:  # without these not even the doctor can begin
    sys.exit(f"fmnas: {missing}: a package that it needs is not whole; install fmnas again, as README.md says")

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Call = Callable[[argparse.Namespace], int]


PLAIN = "fmnas.plain"
"""The codec error handler of `_plain`."""
_PLAIN_SIGNS = {"–": "-", "−": "-", "±": "+-", "→": "->", "←": "<-", "…": "...", "×": "x", "≤": "<="}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Signs that a terminal cannot show, as similar ones of ASCII: "?" in place of a dash reads as unknown."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN_SIGNS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(PLAIN, _plain)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a letter shows another one in its place
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=PLAIN if stream is sys.stdout else "backslashreplace")
    try:
        return _obey(_parsed(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        with suppress(OSError):  # of a full disk Python tells at its end
            _flush()


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments as their command takes them. Exits with the help where there is none, or `list` is alone."""
    parser, commands_by_name = _parser()
    if not arguments:
        parser.print_help(sys.stderr)
        sys.exit(ExitCode.WRONG_INPUT)
    name = arguments[0]
    if not name.startswith("-") and name not in commands_by_name:
        known = list(commands_by_name)
        complain(f"{name}: there is no such command; they are {', '.join(known)}.{did_you_mean(name, known)}")
        sys.exit(ExitCode.WRONG_INPUT)
    if list(arguments) == ["list"]:
        commands_by_name[name].print_help(sys.stderr)
        sys.exit(ExitCode.WRONG_INPUT)
    return parser.parse_args(arguments)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`: that is nobody's failure
        PatientOutput(sys.stdout).give_up()


def _obey(parsed: argparse.Namespace) -> int:
    """Do what the command says; the exit code."""
    try:
        return int(parsed.command(parsed))
    except FmnasError as error:
        complain(redact(str(error)))
        return _ended(parsed, "wrong input", error, ExitCode.WRONG_INPUT)
    except ExperimentFailed as error:
        complain(redact(f"the experiment failed: {error}"))
        return _ended(parsed, "failed", error, ExitCode.FAILED)
    except ImportError as error:
        if (error.name or "").startswith("fmnas"):
            raise  # a mistake of our own
        complain(f"{error}: install it; `fmnas doctor` says what else is missing")
        return _ended(parsed, "wrong input", error, ExitCode.WRONG_INPUT)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except SystemExit as error:  # code that is not ours would end us with whatever it likes
        complain(f"something that was called ended this process by sys.exit({error.code!r})")
        return ExitCode.FAILED
    except BrokenPipeError:  # as in _flush
        PatientOutput(sys.stdout).give_up()
        return ExitCode.DONE


def _ended(parsed: argparse.Namespace, status: str, reason: Exception, code: ExitCode) -> int:
    """The exit code; a program that follows by JSON is told of it."""
    if getattr(parsed, "progress", None) == JSON:
        tell_ending(status, code, {"reason": redact(str(reason)), "again": None})
    return code


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and that of each command by its name."""
    parser = argparse.ArgumentParser(
        prog="fmnas", description="Which optimizer is better, on real trainings, at the same budget."
    )
    parser.add_argument("--version", action="version", version=f"fmnas {version('fmnas')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_drives(subparsers)
    _add_looks(subparsers)
    return parser, subparsers.choices


def _command(subparsers: Subparsers, call: Call) -> argparse.ArgumentParser:
    """The command that is called as a function is, whose docstring is its description, and its first line its help."""
    description = " ".join((call.__doc__ or "").split())
    line = (call.__doc__ or "").partition("\n")[0].removesuffix(".")
    name, told = call.__name__.rstrip("_"), line[:1].lower() + line[1:]
    parser = subparsers.add_parser(name, help=told, description=description.replace("%", "%%"))
    parser.set_defaults(command=call)
    return parser


def _on_directory(subparsers: Subparsers, call: Call) -> argparse.ArgumentParser:
    """A command on one run directory."""
    parser = _command(subparsers, call)
    parser.add_argument("directory", type=Path, metavar="DIR")
    return parser


def _takes_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of a shipped one")
    _takes_overrides(parser, "override a key")


def _takes_overrides(parser: argparse.ArgumentParser, told: str) -> None:
    parser.add_argument("-o", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help=told)


def _add_drives(subparsers: Subparsers) -> None:
    """The commands that train."""
    run = _command(subparsers, commands.run)
    _takes_config(run)
    run.add_argument("--out", type=Path, metavar="DIR", help="run directory; default: runs/NAME")

    resume = _on_directory(subparsers, commands.resume)
    extend = _on_directory(subparsers, commands.extend)
    _takes_overrides(extend, "what grows")

    retrain = _on_directory(subparsers, commands.retrain)
    for name, what in (
        ("epochs", "epochs of each training; default: the experiment's full ones"),
        ("images", "images to train on; default: those that the experiment trained and validated on"),
        ("seeds", "trainings of each configuration; default: as in the experiment"),
    ):
        retrain.add_argument(f"--{name}", type=int, metavar="N", help=what)

    shown = "what is shown meanwhile; default: live at a terminal, else lines"
    for command in (run, resume, extend, retrain):
        command.add_argument("--address", help="of a Ray cluster, or auto; default: one of its own on this machine")
        command.add_argument("--progress", choices=PROGRESS_MODES, help=shown)


def _add_looks(subparsers: Subparsers) -> None:
    """The commands that do not."""
    status = _on_directory(subparsers, commands.status)
    status.add_argument("--json", action="store_true", help="one JSON object")

    report = _command(subparsers, commands.report)
    report.add_argument("directories", type=Path, metavar="DIR", nargs="+")
    report.add_argument("--out", type=Path, metavar="DIR", help="default: in DIR; of several: runs/report-NAMES")

    _on_directory(subparsers, commands.replay)
    _on_directory(subparsers, commands.sync)

    ui = _command(subparsers, commands.ui)
    latest = "default: the latest below runs/ that MLflow knows"
    ui.add_argument("directory", type=Path, metavar="DIR", nargs="?", help=latest)
    ui.add_argument("--port", type=_port, default=5000, help="1 to 65535; default: 5000")

    config = _command(subparsers, commands.config)
    _takes_config(config)
    config.add_argument("--time", action="store_true", help="train a little, to say how long it would take here")

    listing = _command(subparsers, commands.list_)
    listing.add_argument("what", type=_listed, metavar="WHAT", help="problems, optimizers or configs")
    listing.add_argument("--options", action="store_true", help="of optimizers: what each takes, with its default")

    check = _command(subparsers, commands.check)
    check.add_argument("optimizer", metavar="OPTIMIZER", help="module:Class, FILE.py:Class, or a name of the registry")
    _takes_overrides(check, "an option of it")
    check.add_argument("--seconds", type=_seconds, default=60, metavar="N", help="what a rule may take; default: 60")

    doctor = _command(subparsers, commands.doctor)
    doctor.add_argument("--address", help="of a Ray cluster, or auto")


def _listed(text: str) -> str:
    allowed = ("problems", "optimizers", "configs")
    if text not in allowed:
        hint = did_you_mean(text, allowed)
        raise argparse.ArgumentTypeError(f"{text!r}: it must be one of {', '.join(allowed)}.{hint}")
    return text


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: it must be a number from 1 to 65535")
    return port


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: it must be a number of seconds above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
