"""BO-FM as an Optuna sampler. Requires optuna: pip install 'fmnas[optuna]'.

    study = optuna.create_study(sampler=BOFMSampler(seed=0))
    study.optimize(objective, n_trials=100)

Every ask rebuilds BO-FM from the study's trials, so a study may be resumed, shared by processes, or contain trials of
other samplers. The objective of a trial:

| state | objective for BO-FM |
|---|---|
| complete | the value; negated if the study maximises |
| pruned | the last reported value, clipped to the range of the complete trials |
| failed, complete but infeasible by Optuna's constraints, pruned without a value | the worst of the complete trials |
| running | pending, with all parameters that were suggested for it |

The first trials, and parameters that not all complete trials have with the same range, are drawn at random and
independently, as in Optuna's model-based samplers. Studies with several objectives are refused.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from fmnas.integrations.ranges import Choices, Grid, Interval, Range, SpaceTranslator
from fmnas.optimizers import BOFM, OptimizerError
from fmnas.optimizers.bofm import ModeName
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, SpaceError, Trial
from fmnas.search_spaces.records import MODEL

SUGGESTED_KEY = "bofm:suggested"
"""System attribute with a trial's suggested parameters as JSON, so that concurrent processes know them at once."""

SearchSpace = Mapping[str, BaseDistribution]


class BOFMSampler(BaseSampler):  # type: ignore[misc]  # optuna has no types
    """The BO-FM sampler. Raises OptimizerError (a ValueError) for invalid options and for several objectives.

    seed: None for a random seed.
    n_startup_trials: number of complete trials before the first suggestion of BO-FM.
    kernel, mode: as in BOFM.
    """

    def __init__(
        self,
        *,
        seed: Annotated[int, Ge(0)] | None = None,
        n_startup_trials: Annotated[int, Ge(0)] = 10,
        kernel: KernelName = "modlap",
        mode: ModeName = "default",
    ) -> None:
        check_options(type(self), seed=seed, n_startup_trials=n_startup_trials)
        check_options(BOFM, kernel=kernel, mode=mode)
        self._n_startup_trials = n_startup_trials
        self._options: dict[str, Any] = {"kernel": kernel, "mode": mode}
        self._seed = _random_seed() if seed is None else seed
        self._independent_sampler = RandomSampler(seed=seed)
        self._intersection = IntersectionSearchSpace()
        # Parameters and optimum of the last fit, an additional start of the next one.
        self._memo: tuple[SearchSpace, tuple[float, ...]] = ({}, ())

    def reseed_rng(self) -> None:
        """Draw a new seed; Optuna calls this in each parallel worker."""
        self._seed = _random_seed()
        self._independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that all complete trials have with the same range."""
        return self._intersection.calculate(study)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: SearchSpace) -> dict[str, Any]:
        """Return BO-FM's suggestion; empty before there are n_startup_trials complete trials."""
        _check_objectives(study)
        modelled = {name: distribution for name, distribution in search_space.items() if not distribution.single()}
        trials = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        complete = sum(t.state == TrialState.COMPLETE for t in trials)
        if not modelled or complete < self._n_startup_trials:
            return {}
        translator = SpaceTranslator({name: _to_range(distribution) for name, distribution in modelled.items()})
        suggestion = self._restore_optimizer(translator, modelled, trials, study.direction).ask()
        assert suggestion is not None, "BO-FM always has a suggestion"
        self._memo = (modelled, suggestion.memo)
        parameters = translator.parameters(suggestion.configuration)
        internal = {name: modelled[name].to_internal_repr(value) for name, value in parameters.items()}
        study._storage.set_trial_system_attr(trial._trial_id, SUGGESTED_KEY, json.dumps(internal))
        return parameters

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random value, for a parameter that BO-FM does not model."""
        _check_objectives(study)
        return self._independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def _restore_optimizer(
        self, translator: SpaceTranslator[str], search_space: SearchSpace, trials: Sequence[FrozenTrial], direction: Any
    ) -> BOFM:
        """Return BO-FM with these trials as its history and pending trials, in the order of their numbers."""
        values = objectives(trials, -1.0 if direction == StudyDirection.MAXIMIZE else 1.0)
        pairs = [
            (configuration, objective)
            for trial, objective in zip(trials, values, strict=True)
            if (configuration := _to_configuration(translator, search_space, trial)) is not None
        ]
        design = [configuration for configuration, _ in pairs[: self._n_startup_trials]]
        optimizer = BOFM(translator.space, seed=self._seed, initial_design=design, **self._options)
        modelled, memo = self._memo
        for number, (configuration, objective) in enumerate(pairs):
            trial = Trial(number, configuration, 1, MODEL, memo=memo if modelled == search_space else ())
            optimizer.restore(trial)
            if objective is not None:
                optimizer.tell(trial, objective)
        return optimizer


def objectives(trials: Sequence[FrozenTrial], sign: float) -> list[float | None]:
    """Return each trial's objective by the module's table; None: pending. sign: -1 to maximise."""
    values = [sign * trial.value for trial in trials if trial.state == TrialState.COMPLETE]
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    best, worst = min(finite), max(finite)

    def to_objective(trial: FrozenTrial) -> float | None:
        if not trial.state.is_finished():
            return None
        value = sign * _value_of(trial)
        return worst if math.isnan(value) else min(max(value, best), worst)

    return [to_objective(trial) for trial in trials]


def _value_of(trial: FrozenTrial) -> float:
    """Return a finished trial's value; NaN if it has no valid one."""
    if any(violation > 0 for violation in trial.constraints.values()):
        return math.nan
    if trial.state == TrialState.PRUNED and trial.last_step is not None:
        return float(trial.intermediate_values[trial.last_step])
    return float(trial.value) if trial.state == TrialState.COMPLETE else math.nan


def _to_configuration(
    translator: SpaceTranslator[str], search_space: SearchSpace, trial: FrozenTrial
) -> Configuration | None:
    """Return a trial's configuration; None if parameters are missing or have a different range."""
    if any(trial.distributions.get(name, expected) != expected for name, expected in search_space.items()):
        return None
    internal = json.loads(trial.system_attrs.get(SUGGESTED_KEY, "{}"))
    try:
        suggested = {n: search_space[n].to_external_repr(value) for n, value in internal.items() if n in search_space}
        return translator.configuration({**suggested, **trial.params})
    except (KeyError, IndexError, SpaceError):  # IndexError: there were more choices
        return None


def _to_range(distribution: BaseDistribution) -> Range:
    if isinstance(distribution, CategoricalDistribution):
        return Choices(distribution.choices)
    low, high, step, log = distribution.low, distribution.high, distribution.step, distribution.log
    if isinstance(distribution, FloatDistribution) and step is None:
        return Interval(low, high, log)
    return Grid(low, high, step, log)


def _check_objectives(study: Study) -> None:
    if len(study.directions) > 1:
        raise OptimizerError(
            f"the study has {len(study.directions)} objectives, but BOFMSampler supports one: use a single direction "
            "or a different sampler, such as optuna.samplers.GPSampler"
        )


def _random_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])
