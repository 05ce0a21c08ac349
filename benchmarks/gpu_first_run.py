"""The first ten minutes on a GPU: is the training right, what breaks, how fast is it, and what could be faster?

    python benchmarks/gpu_first_run.py [--seconds 540] [--json FILE] [--data DIR] [--only PART ...] [--dry]

It needs torch and numpy alone, and no installation: it runs this checkout. Images are FashionMNIST's from DIR, or
synthetic. Parts, in this order:

| part | result |
|---|---|
| machine | versions, the device, its bandwidth and its float32 rate |
| equality | of each operation: stacked = plain, graph = step, two runs are equal, a diverging seed changes no other |
| failure | the state after a failed capture |
| captures | seconds and memory of many captures in a row |
| steps | microseconds of a step with and without a graph, of drawing an epoch, of validation; the slowest kernels |
| convolutions | microseconds of every convolution, in several ways |
| whole | evaluations in full length |
| shared | 1, 2, 4 and 8 processes that share the device |

Each part is a process with a share of the seconds that are left: it skips what it has no time for, and is killed if it
hangs. If one fails, the others still run. `--dry` runs all of it on the CPU with tiny sizes; its times mean nothing.

Exit code 0: all that could be checked is right; 1: something is wrong or broke; 2: no GPU, or wrong input.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PARTS = {"machine": 25, "equality": 100, "failure": 30, "captures": 60}
PARTS |= {"steps": 90, "convolutions": 70, "whole": 100, "shared": 65}
"""Parts and their shares of the time; they are seconds when there are 540."""

DUMP, GRACE = 2.0, 4.0
"""Seconds that a part may overrun: until it prints where it hangs, and until it is killed."""

LEAST = 15.0
"""Seconds of a part, on average, that --seconds must allow; importing torch takes some of them."""

NO_DEVICE = 3
"""The exit code of a part without a GPU."""


def share(left: float, names: Sequence[str]) -> float:
    """Return the seconds of the first of the named parts, if `left` seconds are for all of them."""
    return left * PARTS[names[0]] / sum(PARTS[name] for name in names)


def format_row(values: dict[str, Any]) -> str:
    """Return a row on one line, without lists."""
    parts = [{True: "right", False: "WRONG"}[values["ok"]]] if "ok" in values else []
    for name, value in values.items():
        if name not in ("ok", "at") and not isinstance(value, list | dict):
            parts.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(parts)


def run_part(command: Sequence[str], seconds: float, home: str) -> tuple[int, str]:
    """Run a command for at most `seconds`, with all processes that it starts. Return its exit code and an error."""
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as stderr:
        child = subprocess.Popen(command, stderr=stderr, start_new_session=True, env=environment)
        try:
            code = child.wait(seconds)
            error = f"it exited with code {code}" if code else ""
        except subprocess.TimeoutExpired:
            code, error = -signal.SIGKILL, f"it was killed after {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in its driver cannot be killed
                child.wait(5)
        stderr.seek(0)
        text = stderr.read().strip()[-3000:]
    return code, f"{error}: {text}" if error and text else error


def read_rows(path: Path) -> dict[str, Any]:
    """Return part -> its rows and what it skipped."""
    parts: dict[str, Any] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        part = parts.setdefault(row["part"], {"rows": {}, "skipped": row.get("skipped", [])})
        if "row" in row:
            part["rows"][row["row"]] = row["result"]
        else:
            part["skipped"] = row["skipped"]
    return parts


def failures(parts: dict[str, Any]) -> list[str]:
    """Return what is wrong or could not be checked."""
    names = []
    for name, part in parts.items():
        names += [name] if "error" in part else []
        names += [f"{name}, {row}" for row, result in part["rows"].items() if "error" in result or not is_right(result)]
    return names


def is_right(result: dict[str, Any]) -> bool:
    """Whether a row is not wrong."""
    return result.get("ok") is not False


def run_all(arguments: argparse.Namespace) -> int:
    """Run every part in turn and return the exit code."""
    names = [name for name in PARTS if name in (arguments.only or PARTS)]
    options = ["--dry"] * arguments.dry + (["--data", str(arguments.data)] if arguments.data else [])
    groups = [names] if arguments.dry else [[name] for name in names]  # a CPU does not break: one process for all
    ends, errors = time.monotonic() + arguments.seconds, dict[str, str]()
    with tempfile.TemporaryDirectory() as home:
        os.symlink(Path(__file__).resolve().parent.parent, Path(home) / "fmnas")
        rows = Path(home) / "rows"
        rows.touch()
        for number, group in enumerate(groups):
            left = ends - time.monotonic()
            seconds = left if arguments.dry else share(left, names[number:])
            seconds = max(seconds - GRACE, 0.1)
            command = [sys.executable, __file__, "--seconds", str(seconds), *options, "--rows", str(rows)]
            code, error = run_part([*command, "--part", *group], seconds + GRACE, home)
            if code == NO_DEVICE:
                print(error, file=sys.stderr)
                return 2
            errors |= dict.fromkeys(group, error) if error else {}
            empty: dict[str, Any] = {"rows": {}, "skipped": []}
            parts = dict.fromkeys(group, empty) | read_rows(rows)
            parts |= {name: {**parts.get(name, empty), "error": text} for name, text in errors.items()}
            if arguments.json:
                facts = {"seconds": arguments.seconds, "dry": arguments.dry, "only": arguments.only}
                arguments.json.write_text(json.dumps({**facts, "parts": parts}, indent=1))
    print("".join(f"{name} BROKE: {text}\n" for name, text in errors.items()), end="")
    print(f"wrong or broken: {'; '.join(failures(parts)) or 'nothing'}")
    return int(bool(failures(parts)))


def work(arguments: argparse.Namespace) -> int:
    """Run some parts in this process; append rows to a file and print them."""
    import faulthandler

    faulthandler.dump_traceback_later(arguments.seconds + DUMP, exit=True)
    ends = time.monotonic() + arguments.seconds
    import gpu_checks
    import gpu_times
    from gpu_subjects import DRY, FULL, answers, run_jobs

    from fmnas.trainers import TrainerError
    from fmnas.trainers.images.devices import usable_device

    plan = DRY if arguments.dry else FULL
    try:
        usable_device(plan.device)
    except TrainerError as error:
        print(f"{error}. --dry runs on the CPU", file=sys.stderr)
        return NO_DEVICE
    parts = {**gpu_checks.PARTS, **gpu_times.PARTS}
    for number, name in enumerate(arguments.part):
        now = time.monotonic()
        own = plan.until(now + share(ends - now, arguments.part[number:]), arguments.data)
        for row in run_jobs(name, parts[name](own), own):
            with arguments.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            text = format_row(row["result"]) if "row" in row else f"no time for {', '.join(row['skipped'])}"
            print(f"{name}, {row.get('row', 'skipped')}: {text}", flush=True)
        if not answers(own.device):
            print(f"{own.device} does not answer any more", file=sys.stderr)
            return 1
    return 0


def main() -> int:
    """Check the arguments, run, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=540.0, help="for all parts together")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path, help="a directory with FashionMNIST's files")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--dry", action="store_true", help="on the CPU, with tiny sizes")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)  # this script, in the process of a part
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        return work(arguments)
    least = LEAST * len(arguments.only or PARTS)
    if not least <= arguments.seconds < float("inf"):
        parser.error(f"--seconds {arguments.seconds:g}: at least {least:g} for these parts; name fewer with --only")
    if arguments.data and not arguments.data.is_dir():
        parser.error(f"--data {arguments.data}: no such directory; without --data, images are synthetic")
    if arguments.json and not arguments.json.parent.is_dir():
        parser.error(f"--json {arguments.json}: create the directory {arguments.json.parent} first")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # kills the part, too
    try:
        return run_all(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
