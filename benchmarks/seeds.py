"""Which seeds a benchmark runs: the first of all numbers, ones that nobody has seen, or those of an earlier run.

Seeds that were looked at while a method was being chosen flatter it. `--fresh` draws others from the operating
system's entropy when the benchmark starts; it prints them and they are kept with the results, so that `--seeds-from`
that file repeats them.
"""

import argparse
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

BITS = 32
"""numpy's RandomState, from which the authors' initial points are drawn, takes no larger seed."""

FRESH = "drawn by --fresh from the operating system's entropy when the measurement began"


@dataclass(frozen=True)
class Seeds:
    """The seeds of a run, in order, and in words where they are from."""

    values: tuple[int, ...]
    origin: str

    def to_dict(self) -> dict[str, object]:
        """As `read` finds them in a file of results."""
        return {"origin": self.origin, "values": self.values}

    def __str__(self) -> str:
        return f"seeds, {self.origin}: {' '.join(map(str, self.values))}"


def add_arguments(parser: argparse.ArgumentParser, count: int) -> None:
    """--seeds N (`count` unless given) and, one of them at most, --first-seed, --fresh, --seeds-from."""
    parser.add_argument("--seeds", type=_positive, help=f"how many; {count}, or all that --seeds-from has")
    parser.set_defaults(default_seeds=count)
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument("--first-seed", type=_seed, default=0, help="the first of consecutive ones")
    origin.add_argument("--fresh", action="store_true", help="draw seeds that nobody has seen")
    origin.add_argument("--seeds-from", type=Path, metavar="FILE", help="those of an earlier run's --json FILE")


def choose_seeds(arguments: argparse.Namespace) -> Seeds:
    """The seeds that the arguments ask for.

    Exits with a message where the file of --seeds-from has no seeds, or fewer than --seeds.
    """
    count: int = arguments.seeds or arguments.default_seeds
    if arguments.fresh:
        return Seeds(tuple(secrets.randbits(BITS) for _ in range(count)), FRESH)
    if arguments.seeds_from is not None:
        return first(read_seeds(arguments.seeds_from), arguments.seeds, arguments.seeds_from)
    start: int = arguments.first_seed
    return Seeds(tuple(range(start, start + count)), f"{start} to {start + count - 1}")


def read_seeds(path: Path) -> Seeds:
    """The seeds that a benchmark wrote into its file of results; exits with a message if it has no seeds."""
    try:
        to_dict = json.loads(path.read_text())["seeds"]
        return Seeds(tuple(int(seed) for seed in to_dict["values"]), str(to_dict["origin"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path}: it holds no seeds ({error}); name a file that --json wrote") from error


def first(seeds: Seeds, count: int | None, path: Path) -> Seeds:
    """The first `count` of a file's seeds, all of them for None; exits with a message where they are too few."""
    if count is not None and count > len(seeds.values):
        raise SystemExit(f"--seeds {count}: {path} has {len(seeds.values)}; ask for at most that many")
    return Seeds(seeds.values[:count], seeds.origin)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1")
    return number


def _seed(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**BITS:
        raise argparse.ArgumentTypeError(f"{number}: from 0 to 2^{BITS} - 1")
    return number
