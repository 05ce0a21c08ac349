"""Keys of a configuration that depend on other keys.

What stands in for a key that was left out, what an override makes of values in the file that it leaves without a
meaning, and which values have no effect beside others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fmnas.platform.config.errors import shown
from fmnas.platform.config.sections import IN_PROCESS, RAY, DataConfig, WorkersConfig
from fmnas.platform.config.user_problem import problem_row
from fmnas.platform.problems import Row, is_own, short_name
from fmnas.search_spaces import FmnasError
from fmnas.trainers.problem import Problem, ProblemSettings

if TYPE_CHECKING:
    from fmnas.platform.config.config import Config

ALL_PAIRS = "all"
"""Hypotheses on every pair of optimizers; what the room `comparison` calls ALL, which takes long to import."""
AUTHORS = "authors"
"""The initial design of the BO-FM paper's own runs."""
MOST_INITIAL_POINTS = 10
STAND_INS = {
    "name": "unnamed",
    "problem": "unknown",
    "optimizers": ["random"],
    "budget": {"evaluations": 1},
    "fidelity": {"epochs": 1},
}
"""Values for required keys that are missing or wrong, so that the other keys can be checked."""


def default_initial_points(evaluations: int) -> int:
    """How many random points an initial design has unless set: a third of the evaluations, from 1 to 10.

    One evaluation has none, so that something is left to choose.
    """
    return min(MOST_INITIAL_POINTS, max(1, evaluations // 3), evaluations - 1)


def default_kind(workers: WorkersConfig, row: Row, concurrency: Iterable[int]) -> str:
    """Where trials run, for workers.kind = auto: in this process for a function that takes milliseconds, else on Ray.

    Whoever says how many workers there are, what one takes, or that an optimizer has several trials in flight wants
    workers, and gets them. concurrency: of each optimizer.
    """
    asked = workers.model_fields_set & {"count", "cpus", "gpus"} or any(number > 1 for number in concurrency)
    return IN_PROCESS if row.takes_milliseconds and not asked else RAY


def fall_back(data: dict[str, Any], before: Mapping[str, Any], overridden: Collection[str]) -> Iterator[str]:
    """Change the values in `data` that came from the file and that an override left without a meaning.

    data: the configuration with its overrides. before: as the file has it. overridden: the keys of the overrides.
    Yields a line for each change. What an override itself says stays, and so does what the file alone has wrong.
    """
    chosen, labels = before.get("hypotheses"), _labels(data)
    is_removed = chosen in _labels(before) and labels and chosen not in labels
    if is_removed and not _is_changed("hypotheses", overridden):
        data["hypotheses"] = ALL_PAIRS
        yield f"hypotheses = {ALL_PAIRS}: {chosen}, as the configuration has it, is not among these optimizers"
    try:
        row = problem_row(data.get("problem"))
        if row is not None:
            if _is_changed("problem", overridden):
                yield from _without_old_problem(data, row, overridden)
            yield from _without_authors_points(data, row, overridden)
    except FmnasError:  # the problem cannot be used, which its check says
        return


def _without_old_problem(data: dict[str, Any], row: Row, overridden: Collection[str]) -> Iterator[str]:
    """Drop what the file sets of its own problem and the problem of the override does not take."""
    takes = row.settable
    foreign = {
        "data": set(DataConfig.model_fields) - set(takes.data),
        "objective": {"flops_weight"} if takes.flops_weight is None else set(),
        "checkpoints": set() if takes.checkpoints else {"every", "continue_promoted"},
        "fixed": set(data["fixed"]) - {*_task(row).space.names} if isinstance(data.get("fixed"), dict) else set(),
    }
    dropped = []
    for section, names in foreign.items():
        values = data.get(section)
        if not isinstance(values, dict):
            continue
        for name in list(values):
            if name in names and not _is_changed(f"{section}.{name}", overridden):
                del values[name]
                dropped.append(f"{section}.{name}")
    if isinstance(row.found, Problem) and "seeds" in data and not _is_changed("seeds", overridden):
        del data["seeds"]
        dropped.append("seeds")
    if dropped:
        yield f"{short_name(row.name)} does not take {', '.join(dropped)} of the configuration: left out"


def _without_authors_points(data: dict[str, Any], row: Row, overridden: Collection[str]) -> Iterator[str]:
    """Random points in place of the authors', where an override leaves none of theirs."""
    if data.get("initial_design") != AUTHORS or _is_changed("initial_design", overridden):
        return
    if _is_changed("problem", overridden) and not _task(row).has_authors_points:
        why = f"the authors' points are not known for {short_name(row.name)}"
    elif _is_changed("fixed", overridden) and data.get("fixed"):
        why = "the authors' points are of the whole space, and fixed leaves a part of it"
    else:
        return
    budget = data.get("budget")
    evaluations = budget.get("evaluations") if isinstance(budget, dict) else None
    if isinstance(evaluations, int) and evaluations > 0:
        data["initial_design"] = default_initial_points(evaluations)
        yield f"initial_design = {data['initial_design']} random points: {why}"


def without_effect(config: "Config", overridden: Collection[str]) -> Iterator[str]:
    """A line for values that were set and change nothing. overridden: the keys of the overrides."""
    workers = config.workers
    if workers.kind == IN_PROCESS:
        set_keys = [f"workers.{key} = {shown(getattr(workers, key))}" for key in _of_several_workers(workers)]
        set_keys += [
            f"optimizers.{i}.concurrency = {entry.concurrency}"
            for i, entry in enumerate(config.optimizers)
            if entry.concurrency > 1
        ]
        if set_keys:
            yield f"without effect: {', '.join(set_keys)}: workers.kind = {IN_PROCESS} runs one trial at a time here"
    row = problem_row(config.problem)
    default = type(config).model_fields["seeds"].default
    is_set = _is_changed("seeds", overridden) or config.seeds != default
    if row is not None and not is_own(row.name) and is_set and not _task(row).seeds:
        yield f"without effect: seeds = {config.seeds}: an evaluation of {config.problem} has no seeds to average"
    tracking = [f"tracking.{key}" for key in ("uri", "experiment") if getattr(config.tracking, key) is not None]
    if tracking and not config.tracking.enabled:
        yield f"without effect: {', '.join(tracking)}: tracking.enabled = false"


def _of_several_workers(workers: WorkersConfig) -> list[str]:
    """The keys that only workers on Ray heed, as far as they have another value than their default."""
    fields = type(workers).model_fields
    return [key for key in ("count", "cpus", "attempts") if getattr(workers, key) != fields[key].default]


def _task(row: Row) -> Problem:
    return row.problem(ProblemSettings())


def _is_changed(key: str, overridden: Collection[str]) -> bool:
    """Whether an override names the key, something in it or the section around it."""
    return any(key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in overridden)


def _labels(data: Mapping[str, Any]) -> list[Any]:
    """Of the optimizers in a configuration's plain data, as far as these have some."""
    entries = data.get("optimizers")
    mappings = (
        [each if isinstance(each, dict) else {"name": each} for each in entries] if isinstance(entries, list) else []
    )
    return [each.get("label", each.get("name")) for each in mappings]
