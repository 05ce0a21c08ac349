"""The first ten minutes on a GPU: is the training right, what breaks, and how fast is it?

    python benchmarks/gpu_first_run.py [--seconds 540] [--json FILE] [--only PART ...] [--dry]

It needs torch and numpy alone, and no installation: it runs this checkout. Parts, in this order:

| part | result |
|---|---|
| equality | of each operation: stacked = plain (in double precision), graph = step, two runs; no seed changes another |
| failure | the state after a failed capture |
| captures | seconds and memory of many captures in a row |
| sharing | evaluations by the trainer, in 1, 2, 4 and 8 processes that share the device (training_gpu.py) |
| alone | evaluations of five cells, alone on the device, and the plain loop's (training_gpu.py) |

Each part is a process with a share of the seconds that are left; it is killed if it hangs. If one fails, the others
still run. `--dry` runs the checks on the CPU with tiny sizes.

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

HERE = Path(__file__).resolve().parent
PARTS = {"equality": 150, "failure": 30, "captures": 90, "sharing": 90, "alone": 180}
"""Parts and their shares of the time; they are seconds when there are 540."""

TIMINGS = ("sharing", "alone")
"""The parts of `training_gpu.py`."""

GRACE = 4.0
"""Seconds that a part may overrun until it is killed."""

LEAST = 15.0
"""Seconds of a part, on average, that --seconds must allow; importing torch takes some of them."""

NO_DEVICE = 3
"""The exit code of a part without a GPU."""


def share(left: float, names: Sequence[str]) -> float:
    """Return the seconds of the first of the named parts, if `left` seconds are for all of them."""
    return left * PARTS[names[0]] / sum(PARTS[name] for name in names)


def command(part: str, seconds: float, path: Path, dry: bool) -> list[str]:
    """Return the command of a part, which writes its numbers to a file."""
    script = ["training.py", "--part", part] if part in TIMINGS else ["gpu_checks.py", part, *["--dry"] * dry]
    return [sys.executable, str(HERE / script[0]), *script[1:], "--seconds", str(seconds), "--json", str(path)]


def run_part(called: Sequence[str], seconds: float, home: str) -> int:
    """Run a command for at most `seconds`, with all processes that it starts. Return its exit code; negative: killed.

    home: a directory with a link `fmnas` to the checkout.
    """
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen(called, start_new_session=True, env=environment)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in its driver cannot be killed
            child.wait(5)


def run_all(arguments: argparse.Namespace) -> int:
    """Run every part in turn and return the exit code."""
    names = [name for name in PARTS if name in (arguments.only or PARTS) and not (arguments.dry and name in TIMINGS)]
    ends, results, wrong = time.monotonic() + arguments.seconds, dict[str, Any](), list[str]()
    with tempfile.TemporaryDirectory() as home:
        os.symlink(HERE.parent, Path(home) / "fmnas")
        for number, name in enumerate(names):
            seconds = max(share(ends - time.monotonic(), names[number:]) - GRACE, 1.0)
            path = Path(home) / f"{name}.json"
            code = run_part(command(name, seconds, path, arguments.dry), seconds + GRACE, home)
            if code == NO_DEVICE:
                return 2
            wrong += [f"{name} (exit code {code})"] if code else []
            results[name] = {"code": code, "rows": json.loads(path.read_text()) if path.exists() else {}}
            if arguments.json:
                arguments.json.write_text(json.dumps({"dry": arguments.dry, "parts": results}, indent=1))
    print(f"wrong or broken: {'; '.join(wrong) or 'nothing'}")
    return int(bool(wrong))


def main() -> int:
    """Check the arguments, run, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=540.0, help="for all parts together")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--dry", action="store_true", help="on the CPU, with tiny sizes")
    arguments = parser.parse_args()
    least = LEAST * len(arguments.only or PARTS)
    if not least <= arguments.seconds < float("inf"):
        parser.error(f"--seconds {arguments.seconds:g}: at least {least:g} for these parts; name fewer with --only")
    if arguments.json and not arguments.json.parent.is_dir():
        parser.error(f"--json {arguments.json}: create the directory {arguments.json.parent} first")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # kills the part, too
    try:
        return run_all(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
