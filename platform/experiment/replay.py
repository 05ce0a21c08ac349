"""Replaying a journal: every optimizer is built anew and asked again, in the order that the journal recorded.

The order of lines is the order of asks and tells, also where several trials were in flight. So an honest journal is
followed to the last number. Where the experiment was extended, all optimizers are built anew for what it is from there
on, and told what came before, as the driver did that went on. Where a suggestion differs, the recorded one takes its
place (the optimizer is rebuilt up to there), and the replay goes on: one change of a record shows where it is, and in
what it would have led to.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.errors import LET_THROUGH, one_line, own_line
from fmnas.platform.experiment.configuration import differences
from fmnas.platform.experiment.experiment import Experiment, Run
from fmnas.platform.experiment.journal import EXTENDED, Record
from fmnas.platform.experiment.state import ExperimentState
from fmnas.search_spaces import FmnasError, Trial

MOST_DIFFERENCES = 100
"""After so many differences of a run the rest of it is not compared: each takes as long as the run up to there."""


@dataclass(frozen=True)
class Difference:
    """A suggestion that is not the recorded one.

    line: of the journal, from 1. changes: what differs, key -> (recorded, asked again); a key of the configuration is
    written `configuration.NAME`. reason: why there was nothing to compare; else empty.
    """

    line: int
    run: str
    trial: int
    changes: Mapping[str, tuple[Any, Any]]
    reason: str = ""


@dataclass(frozen=True)
class Replayed:
    """How many suggestions of each run were asked again, and which differ."""

    asks: Mapping[str, int]
    differences: tuple[Difference, ...]


def replay(
    build: Callable[[], Experiment], records: Sequence[Record], extended: Sequence[Callable[[], Experiment]] = ()
) -> Replayed:
    """Follow the records that come after the journal's first.

    build: gives the experiment at its beginning. extended: the same after each extension, in turn, with nothing done.
    Raises RunDirectoryError for records that do not follow from each other.
    """
    state, coming = _Replay(build(), {}, ()), iter(extended)
    found: list[Difference] = []
    counts = Counter[str]()  # differences of each run
    lost: set[str] = set()  # runs whose record cannot be followed any further
    for index, record in enumerate(records):
        if record["event"] == EXTENDED:
            build = next(coming)
            told = [(line, each) for line, each in enumerate(records[:index], start=2) if each.get("run") not in lost]
            state = _Replay(build(), state.asks, told)
        if record.get("run") in lost:
            continue
        state.follow(index + 2, record)
        difference = state.difference
        if difference is None:
            continue
        counts[difference.run] += 1
        if counts[difference.run] == MOST_DIFFERENCES:
            lost.add(difference.run)
            difference = replace(difference, reason=f"{MOST_DIFFERENCES} differ: the rest of this run is not compared")
        else:
            try:
                _rebuild(state, build(), records[: index + 1])
            except FmnasError as error:
                lost.add(difference.run)
                difference = replace(difference, reason=f"from here this run cannot be followed: {error}")
        found.append(difference)
    return Replayed(state.asks, tuple(found))


class _Replay(ExperimentState):
    """A state whose optimizers are asked again.

    asks: of each run, so far. told: records of before, each with its line, which they hear of and are not asked for.
    difference: how the last record's suggestion differs; None if it does not, or was none.
    """

    def __init__(self, experiment: Experiment, asks: Mapping[str, int], told: Sequence[tuple[int, Record]]) -> None:
        super().__init__(experiment)
        self._line, self._asking = 1, False
        self.asks = {**dict.fromkeys(self.runs, 0), **asks}
        self.difference: Difference | None = None
        for line, record in told:
            self.follow(line, record)
        self._asking = True

    def follow(self, line: int, record: Record) -> None:
        self._line, self.difference = line, None
        super().follow(line, record)

    def _suggested(self, run: Run, recorded: Trial) -> None:
        if not self._asking:
            super()._suggested(run, recorded)
            return
        self.asks[run.name] += 1
        found, reason = self._compare(run, recorded)
        if found or reason:
            self.difference = Difference(self._line, run.name, recorded.id, found, reason)

    def _compare(self, run: Run, recorded: Trial) -> tuple[dict[str, tuple[Any, Any]], str]:
        """What differs, and why there was nothing to compare."""
        try:
            with same_working_directory():
                suggested = run.optimizer.ask()
            trial = None if suggested is None else self.experiment.issued(run, suggested)
        except LET_THROUGH:
            raise
        except BaseException as error:  # whatever it is, it is a finding of the replay and not its end
            return {}, f"the optimizer failed: {one_line(error)}{own_line(error)}"
        if trial is None:
            return {}, "the optimizer had nothing to suggest"
        return differences(asdict(recorded), asdict(Trial.from_dict(trial.to_dict()))), ""  # as a journal has it


def _rebuild(state: _Replay, fresh: Experiment, records: Sequence[Record]) -> None:
    """Put, in place of the optimizer that differed, one that was told what the journal says."""
    name = records[-1]["run"]
    told = ExperimentState(fresh)
    for line, record in enumerate(records, start=2):
        if record.get("run") == name:
            told.follow(line, record)
    state.runs[name].optimizer = told.runs[name].optimizer


def difference_in_words(difference: Difference) -> str:
    """A difference for a person."""
    told = [f"{key} is {before!r}, asked again {now!r}" for key, (before, now) in difference.changes.items()]
    what = "; ".join([*told, *([difference.reason] if difference.reason else [])])
    return f"line {difference.line}: {difference.run}, trial {difference.trial}: {what}"
