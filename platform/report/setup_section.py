"""The setup section of a report: problem, budget, initial design, and the settings of every optimizer."""

from typing import Any

from fmnas.comparison.summary import Remark
from fmnas.platform.config.errors import format_count
from fmnas.platform.config.schema import AUTHORS, AUTO, INSTANT, Config
from fmnas.platform.problems import display_name, find_problem, is_user_defined
from fmnas.search_spaces import Subspace
from fmnas.trainers.problem import Problem


def setup_statements(config: Config, problem: Problem) -> list[str]:
    """Return a statement each on the problem, its fixed variables, objective, budget, design, concurrency and time."""
    concurrent = [f"{entry.label} {entry.concurrency}" for entry in config.optimizers if entry.concurrency > 1]
    rest = "; all others 1" if len(concurrent) < len(config.optimizers) else ""
    statements = [
        f"{display_name(config.problem)}: {_problem_summary(config, problem)}",
        *(
            (problem.description, f"Data: {problem.dataset}" * bool(problem.dataset))
            if is_user_defined(config.problem)
            else ()
        ),
        _fixed_variables(config, problem),
        problem.objective,
        _budget(config),
        _initial_design(config),
        f"Concurrent trials: {', '.join(concurrent)}{rest}" if concurrent else "",
        _racing(config),
        _simulated_time(config),
    ]
    return [text if text.endswith((".", "!", "?")) else f"{text}." for text in statements if text]


def resolved_options(config: Config) -> dict[str, dict[str, Any]]:
    """Return label -> options of the optimizer with all defaults, and its name and warm start if it has others."""
    return {
        entry.label: {
            **({} if entry.name == entry.label else {"optimizer": entry.name}),
            **({} if entry.warm_start is None else {"warm_start": entry.warm_start}),
            **entry.settings,
        }
        for entry in config.optimizers
    }


def search_fidelity(config: Config) -> dict[str, int]:
    """Return what a full training of the search has, to tell whether a retraining has less."""
    images = {} if config.data.train is None else {"images": config.data.train}
    return {"epochs": config.fidelity.epochs, **images, "seeds": config.seeds}


def optimizer_notes(config: Config) -> list[Remark]:
    """Return what each optimizer says of itself that a reader must know and its trials do not show."""
    notes = ((entry.label, entry.implementation.caveat(entry.settings)) for entry in config.optimizers)
    return [Remark(f"{label} {note}", label) for label, note in notes if note]


def _problem_summary(config: Config, problem: Problem) -> str:
    entry = find_problem(config.problem)
    if entry is not None and entry.summary:
        return entry.summary
    counts = {"discrete": len(problem.space.discrete), "continuous": len(problem.space.continuous)}
    plural = "" if len(problem.space.variables) == 1 else "s"
    return f"{' and '.join(f'{count} {kind}' for kind, count in counts.items() if count)} variable{plural}"


def _fixed_variables(config: Config, problem: Problem) -> str:
    subspace = Subspace(problem.space, config.fixed)
    if not subspace.fixed:
        return ""
    values = ", ".join(f"{name} = {value}" for name, value in subspace.fixed.items())
    return f"Fixed: {values}. Variables: {', '.join(subspace.free.names)}"


def _budget(config: Config) -> str:
    evaluations = format_count(config.budget.evaluations, "evaluation")
    epochs, seconds = config.fidelity.epochs, config.budget.seconds
    per_evaluation = "" if epochs == 1 else f" of {epochs} epochs"
    limit = "" if seconds is None else f", at most {seconds:,.10g} seconds"
    return f"Budget per optimizer and repeat: {evaluations}{per_evaluation}{limit}. Repeats: {config.repeats}"


def _racing(config: Config) -> str:
    if config.racing is None:
        return ""
    return (
        f"Racing: a full trial that is clearly worse than the incumbent after {config.racing} of {config.seeds} seeds "
        "is stopped, and charged for these alone"
    )


def _simulated_time(config: Config) -> str:
    workers = config.workers
    if not workers.is_simulated:
        return ""
    count = config.concurrency if workers.count == AUTO else workers.count
    suggestions = "none" if workers.suggestions == INSTANT else "its measured ones"
    return (
        f"Time is simulated: {format_count(int(count), 'worker')}; a trial takes the seconds that its evaluation "
        f"reports, an ask or a tell {suggestions}"
    )


def _initial_design(config: Config) -> str:
    entries = [
        entry for entry in config.optimizers if entry.warm_start is None and entry.implementation.takes_initial_design
    ]
    if not entries or not config.initial_points:
        return ""
    points = format_count(config.initial_points, "random point")
    if config.initial_design == AUTHORS:
        # Seed 0 repeats the authors' own runs; every other seed draws new points by their method.
        source = "by the BO-FM authors' method" if config.seed else "of the BO-FM authors' runs"
        points = f"{config.initial_points} points {source}"
    labels = ", ".join(entry.label for entry in entries)
    if len(entries) == 1:
        return f"Initial design of {labels}: {points}"
    return f"Initial design: {points}, the same for {labels} in a repeat"
