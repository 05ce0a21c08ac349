"""The first ten minutes on a GPU: is what it trains right, what breaks, how fast is it, and what might be faster?

    python benchmarks/gpu_first_run.py [--seconds 540] [--json FILE] [--data DIR] [--only PART ...] [--dry]

Needs torch and numpy alone, and no installation: this checkout is what runs. Images are FashionMNIST's from DIR, or
synthetic. Parts, in this order:

| part | what it finds |
|---|---|
| machine | versions, the device, its bandwidth and its float32 rate |
| equality | of each operation: stacked is plain, a graph is its step, twice is the same, the ill leave others alone |
| failure | what a capture that fails leaves behind |
| captures | seconds and memory of many captures, one after the other |
| steps | microseconds of a step as a graph and without, of drawing an epoch, of validation; the dearest kernels |
| convolutions | microseconds of every convolution, in several ways |
| whole | evaluations in full length |
| shared | 1, 2, 4 and 8 processes that share the device |

Each part is a process of its own, with a share of the seconds that are left: it leaves out what it has no time for, and
is ended if it hangs. One that fails is told of, and the others go on. FILE is whole after every row. `--dry` rehearses
all of it on the CPU, as far as that goes, with tiny sizes; nothing that it says is about speed.

Code 0: all that could be judged is right; 1: something is wrong or broke; 2: there is no GPU, or the input was wrong.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

PARTS = {"machine": 25, "equality": 100, "failure": 30, "captures": 60}
PARTS |= {"steps": 90, "convolutions": 70, "whole": 100, "shared": 65}
"""Parts and their shares of the time; they are seconds when there are 540."""

DUMP, GRACE = 2.0, 4.0
"""Seconds that a part may overrun: until it shows where it hangs, and until it is ended."""

LEAST = 15.0
"""Seconds of a part, on average, below which it is not worth its while: importing torch takes some of them."""

NO_DEVICE = 3
"""The code of a part that has no GPU to work on."""

Take = Callable[[dict[str, Any]], None]


def share(left: float, coming: Sequence[str]) -> float:
    """The seconds of the first of the coming parts, of those that are left for all of them."""
    return left * PARTS[coming[0]] / sum(PARTS[name] for name in coming)


class Findings:
    """All that was found, in a file that is whole at any time, and on the screen."""

    def __init__(self, path: Path | None, facts: dict[str, Any]) -> None:
        self._path, self.all = path, {**facts, "parts": {}}

    def take(self, line: dict[str, Any]) -> None:
        """A row of a part, or what it left out."""
        part = self.all["parts"].setdefault(line["part"], {"rows": {}, "left_out": []})
        if "row" in line:
            part["rows"][line["row"]] = line["found"]
            print(f"{line['part']}, {line['row']}: {shown(line['found'])}", flush=True)
        else:
            part["left_out"] = line["left_out"]
            print(f"{line['part']}: no time for {', '.join(line['left_out'])}", flush=True)
        self.keep()

    def close(self, names: Sequence[str], seconds: float, trouble: str) -> None:
        """The parts of these names are over."""
        for name in names:
            part = self.all["parts"].setdefault(name, {"rows": {}, "left_out": []})
            part |= {"seconds": round(seconds, 1), **({"trouble": trouble} if trouble else {})}
        if trouble:
            print(f"{', '.join(names)}: BROKE: {trouble}", flush=True)
        self.keep()

    def keep(self) -> None:
        """Write all of it."""
        if self._path:
            beside = self._path.with_name(f".{self._path.name}.new")
            beside.write_text(json.dumps(self.all, indent=1))
            os.replace(beside, self._path)

    def wrong(self) -> list[str]:
        """What is not right, or could not be found out."""
        found = []
        for name, part in self.all["parts"].items():
            found += [name] if "trouble" in part else []
            found += [f"{name}, {row}" for row, it in part["rows"].items() if "error" in it or it.get("ok") is False]
        return found


def shown(found: dict[str, Any]) -> str:
    """A row on one line; lists are for the file."""
    words = {True: "right", False: "WRONG"}
    parts = [words[found["ok"]]] if "ok" in found else []
    for name, value in found.items():
        if name not in ("ok", "at") and not isinstance(value, list | dict):
            parts.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(parts)


def read(lines: IO[str], take: Take) -> None:
    """Rows to `take`; anything else that is said goes to the screen."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict) and "part" in row:
            take(row)
        else:
            print(line, end="", flush=True)


def watched(command: Sequence[str], seconds: float, take: Take, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command that prints rows, for so many seconds at most, with all that it starts.

    Its code, and what went wrong with the end of its complaints; "" if nothing did.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaints, text=True, start_new_session=True, env=environment
        )
        assert child.stdout is not None
        reader = threading.Thread(target=read, args=(child.stdout, take), daemon=True)
        reader.start()
        try:
            code = child.wait(seconds)
            trouble = f"it ended with code {code}" if code else ""
        except subprocess.TimeoutExpired:
            code, trouble = -signal.SIGKILL, f"it had to be ended after {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in its driver cannot be ended
                child.wait(5)
            reader.join(5)
            if not reader.is_alive():
                child.stdout.close()
        complaints.seek(0)
        said = complaints.read().strip()
    return code, f"{trouble}; it said: {said[-3000:]}" if trouble and said else trouble


def environment(home: str) -> dict[str, str]:
    """The environment of a part: fmnas.<room> are the rooms of this checkout, whatever else is installed."""
    os.symlink(Path(__file__).resolve().parent.parent, Path(home) / "fmnas")
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def supervise(arguments: argparse.Namespace) -> int:
    """Every part in turn; the code to end with."""
    names = [name for name in PARTS if name in (arguments.only or PARTS)]
    given = ["--dry"] if arguments.dry else []
    given += ["--data", str(arguments.data)] if arguments.data else []
    groups = [names] if arguments.dry else [[name] for name in names]  # a CPU does not break: importing once is enough
    findings = Findings(arguments.json, {"seconds": arguments.seconds, "dry": arguments.dry, "only": arguments.only})
    ends = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as home:
        surroundings = environment(home)
        for number, group in enumerate(groups):
            begun = time.monotonic()
            coming = [name for later in groups[number:] for name in later]
            own = ends - begun if len(group) > 1 else share(ends - begun, coming)
            own = max(own - GRACE, 0.1)
            command = [sys.executable, __file__, "--seconds", str(own), *given, "--part", *group]
            code, trouble = watched(command, own + GRACE, findings.take, surroundings)
            if code == NO_DEVICE:
                print(trouble.rpartition("it said: ")[2], file=sys.stderr)
                return 2
            findings.close(group, time.monotonic() - begun, trouble)
    wrong = findings.wrong()
    print(f"wrong or broken: {'; '.join(wrong) or 'nothing'}")
    return int(bool(wrong))


def work(arguments: argparse.Namespace) -> int:
    """Some parts, in this process; rows go to standard output."""
    import faulthandler

    faulthandler.dump_traceback_later(arguments.seconds + DUMP, exit=True)
    ends = time.monotonic() + arguments.seconds
    import gpu_checks
    import gpu_times
    from gpu_subjects import DRY, FULL, answers, jobs_done

    from fmnas.trainers import TrainerError
    from fmnas.trainers.images.devices import usable_device

    plan = DRY if arguments.dry else FULL
    try:
        usable_device(plan.device)
    except TrainerError as error:
        print(f"{error}. --dry rehearses on the CPU what can be", file=sys.stderr)
        return NO_DEVICE
    parts = {**gpu_checks.PARTS, **gpu_times.PARTS}
    for number, name in enumerate(arguments.part):
        now = time.monotonic()
        own = plan.until(now + share(ends - now, arguments.part[number:]), arguments.data)
        for line in jobs_done(name, parts[name](own), own):
            print(json.dumps(line), flush=True)
        if not answers(own.device):
            print(f"{own.device} does not answer any more", file=sys.stderr)
            return 1
    return 0


def main() -> int:
    """The code to end with."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=540.0, help="for all parts together")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path, help="a folder with FashionMNIST's files")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--dry", action="store_true", help="on the CPU, with tiny sizes")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)  # this script, in the process of a part
    arguments = parser.parse_args()
    if arguments.part:
        return work(arguments)
    least = LEAST * len(arguments.only or PARTS)
    if not least <= arguments.seconds < float("inf"):
        parser.error(f"--seconds {arguments.seconds:g}: at least {least:g} for these parts; name fewer with --only")
    if arguments.data and not arguments.data.is_dir():
        parser.error(f"--data {arguments.data}: there is no such folder; without --data, images are synthetic")
    if arguments.json and not arguments.json.parent.is_dir():
        parser.error(f"--json {arguments.json}: there is no folder {arguments.json.parent}; make it first")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # and the part that runs ends, too
    try:
        return supervise(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
