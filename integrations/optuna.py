"""BO-FM as a sampler of Optuna. It needs optuna: pip install 'fmnas[optuna]'.

    study = optuna.create_study(sampler=BOFMSampler(seed=0))
    study.optimize(objective, n_trials=100)

Every ask builds BO-FM anew from the study's trials, so a study may be resumed, shared by processes, or have trials
of other samplers. What BO-FM hears of a trial:

| state | it hears |
|---|---|
| complete | the value; negated where the study maximises |
| pruned | the last value reported, but nothing beyond the best and the worst of the complete trials |
| failed, complete but infeasible by Optuna's constraints, pruned without a value | the worst of the complete trials |
| running | nothing: it is pending, with all that was suggested for it, even what it has not asked for yet |

The first trials, and parameters that not all complete trials have, or not with the same range, are drawn at random,
independently, as Optuna's samplers with a model have it. A study of several objectives is refused.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fmnas.integrations import MissingPackageError
from fmnas.integrations.ranges import Choices, Grid, Interval, Range, Translation
from fmnas.optimizers import BOFM, OptimizerError
from fmnas.optimizers.bofm import ModeName
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, SpaceError, Trial
from fmnas.search_spaces.records import MODEL

try:
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise MissingPackageError("fmnas.integrations.optuna", "optuna", "optuna", error) from error

SUGGESTED_KEY = "bofm:suggested"
"""The system attribute of a trial that holds what was suggested for it, as JSON: others must know it at once."""

SearchSpace = Mapping[str, BaseDistribution]


class BOFMSampler(BaseSampler):  # type: ignore[misc]  # optuna has no types
    """BO-FM. Raises OptimizerError, a ValueError, for options that cannot be and for several objectives.

    seed: None draws one.
    n_startup_trials: complete trials before which it draws at random.
    kernel, mode: as of BOFM.
    independent_sampler: draws what BO-FM does not model; RandomSampler by default.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        n_startup_trials: int = 10,
        kernel: KernelName = "modlap",
        mode: ModeName = "default",
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        if n_startup_trials < 0:
            raise OptimizerError(f"n_startup_trials = {n_startup_trials}: it must be at least 0")
        check_options(BOFM, kernel=kernel, mode=mode)
        self._n_startup_trials = n_startup_trials
        self._options: dict[str, Any] = {"kernel": kernel, "mode": mode}
        self._seed = _fresh_seed() if seed is None else seed
        self._independent_sampler = independent_sampler or RandomSampler(seed=seed)
        self._intersection = IntersectionSearchSpace()
        # Where the last fit ended, and on which parameters: the next one starts there, too.
        self._memo: tuple[SearchSpace, tuple[float, ...]] = ({}, ())

    def reseed_rng(self) -> None:
        """Take another seed: Optuna calls it in each of its parallel workers."""
        self._seed = _fresh_seed()
        self._independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all complete trials have, each with one range, of more than one value."""
        common = self._intersection.calculate(study)
        return {name: distribution for name, distribution in common.items() if not distribution.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: SearchSpace) -> dict[str, Any]:
        """BO-FM's suggestion for these parameters; none before there are enough complete trials."""
        _check_objectives(study)
        modelled = {name: each for name, each in search_space.items() if not each.single()}
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        complete = sum(each.state == TrialState.COMPLETE for each in others)
        if not modelled or complete < self._n_startup_trials:
            return {}
        translation = Translation({name: _range(each) for name, each in modelled.items()})
        asked = self._restored(translation, modelled, others, study.direction).ask()
        assert asked is not None, "BO-FM always has a suggestion"
        self._memo = (modelled, asked.memo)
        parameters = translation.parameters(asked.configuration)
        study._storage.set_trial_system_attr(trial._trial_id, SUGGESTED_KEY, json.dumps(parameters))
        return parameters

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A draw of the independent sampler."""
        _check_objectives(study)
        return self._independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def _restored(
        self, translation: Translation[str], search_space: SearchSpace, trials: Sequence[FrozenTrial], direction: Any
    ) -> BOFM:
        """BO-FM as if it had asked for these trials and heard of them, in the order of their numbers."""
        heard = objectives(trials, -1.0 if direction == StudyDirection.MAXIMIZE else 1.0)
        pairs = [
            (configuration, objective)
            for trial, objective in zip(trials, heard, strict=True)
            if (configuration := _configuration(translation, search_space, trial)) is not None
        ]
        design = [configuration for configuration, _ in pairs[: self._n_startup_trials]]
        optimizer = BOFM(translation.space, seed=self._seed, initial_design=design, **self._options)
        modelled, memo = self._memo
        for number, (configuration, objective) in enumerate(pairs):
            trial = Trial(number, configuration, 1, MODEL, memo=memo if modelled == search_space else ())
            optimizer.restore(trial)
            if objective is not None:
                optimizer.tell(trial, objective)
        return optimizer


def objectives(trials: Sequence[FrozenTrial], sign: float) -> list[float | None]:
    """What BO-FM hears of each trial, as the module's table has it; None: nothing. sign: -1 where more is better."""
    values = [sign * each.value for each in trials if each.state == TrialState.COMPLETE]
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    best, worst = min(finite), max(finite)

    def heard(trial: FrozenTrial) -> float | None:
        if not trial.state.is_finished():
            return None
        value = sign * _reported(trial)
        return worst if math.isnan(value) else min(max(value, best), worst)

    return [heard(trial) for trial in trials]


def _reported(trial: FrozenTrial) -> float:
    """A finished trial's own value, NaN where it has none that counts."""
    if any(violation > 0 for violation in trial.constraints.values()):
        return math.nan
    if trial.state == TrialState.PRUNED and trial.last_step is not None:
        return float(trial.intermediate_values[trial.last_step])
    return float(trial.value) if trial.state == TrialState.COMPLETE else math.nan


def _configuration(
    translation: Translation[str], search_space: SearchSpace, trial: FrozenTrial
) -> Configuration | None:
    """What is being tried, or was: None where another range was asked for, or not all of these parameters."""
    if any(trial.distributions.get(name, each) != each for name, each in search_space.items()):
        return None
    suggested = json.loads(trial.system_attrs.get(SUGGESTED_KEY, "{}"))
    try:
        return translation.configuration({**suggested, **trial.params})
    except SpaceError:
        return None


def _range(distribution: BaseDistribution) -> Range:
    if isinstance(distribution, CategoricalDistribution):
        return Choices(distribution.choices)
    low, high, step, log = distribution.low, distribution.high, distribution.step, distribution.log
    if isinstance(distribution, FloatDistribution) and step is None:
        return Interval(low, high, log)
    return Grid(low, high, step, log)


def _check_objectives(study: Study) -> None:
    if len(study.directions) > 1:
        raise OptimizerError(
            f"the study has {len(study.directions)} objectives, and BOFMSampler models one: create it with a single "
            "direction, or take another sampler, such as optuna.samplers.GPSampler"
        )


def _fresh_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])
