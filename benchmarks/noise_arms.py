"""BO-FM under noise: whether another incumbent or acquisition finds better configurations of the joint problem.

    fmnas run joint_recorded -o seed=N -o hypotheses=bo-fm --out runs/noise -o 'optimizers=[bo-fm,
        {name: mean, use: "benchmarks/noise_arms.py:MeanIncumbent"},
        {name: augmented, use: "benchmarks/noise_arms.py:Augmented"}]'
    python benchmarks/noise_arms.py runs/noise [--kernel]

The objective has noise, so the lowest one seen is too low. `MeanIncumbent` improves on the lowest predicted mean of a
tried configuration; `Augmented` does so too, and gives no credit for deviations below the noise (Huang et al. 2006).
The table has what the surrogate itself expects of the configuration with the lowest objective of each run: its truth,
without noise. --kernel: the runs are of second_surrogate.py.

Rule, stated before the runs: an arm becomes the default if its expected objective after 60 evaluations is lower than
bo-fm's with p < 0.1 (Holm over the arms) in 20 repeats of a fresh seed on the trees, and again on the second surrogate
with another fresh seed. Else the default stays, as the simpler one.
"""

import argparse
from pathlib import Path

import numpy as np

from fmnas.api import load_run
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.comparison.analysis.trials import configuration_of
from fmnas.optimizers import BOFM
from fmnas.optimizers.gp.acquisition import LogAugmentedEI, LogEI
from fmnas.optimizers.gp.points import is_new
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.search import SearchState, Surface
from fmnas.optimizers.optimizer import Suggestion
from fmnas.search_spaces import Cell, Trial, joint_space
from fmnas.search_spaces.records import MODEL
from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.surrogate.model import Surrogate, read_surrogate
from fmnas.trainers.surrogate.problem import FILE

REFERENCE = "bo-fm"


class MeanIncumbent(BOFM):
    """Expected improvement on the lowest predicted mean of a tried or pending configuration."""

    def build_acquisition(self, posterior: Posterior, best: float) -> LogEI:
        """Return the acquisition of a process. best: the lowest predicted mean."""
        return LogEI(best)

    def _maximise(self, posterior: Posterior, rng: np.random.Generator) -> Suggestion:
        posterior, known = self._with_fantasies(posterior), self._known_points()
        means, _ = posterior.predict(posterior.likelihood.points)
        surface = Surface(posterior, self.build_acquisition(posterior, float(means.min())))
        around = known[int(means[: len(self.history)].argmin())]
        candidates = self.candidates(surface, SearchState(around, known, self.settings.search, rng))
        for x in candidates.to_encoded(self.space):
            if is_new(x[None], known).all():
                return Suggestion(self.space.decode(x), MODEL, memo=self._memo())
        return self._suggest_random(rng, "every candidate was tried before", memo=self._memo())


class Augmented(MeanIncumbent):
    """Augmented expected improvement."""

    def build_acquisition(self, posterior: Posterior, best: float) -> LogEI:
        """Return the acquisition, with the fitted variance of the noise."""
        return LogAugmentedEI(best, max(float(posterior.g * posterior.s2), 1e-12))


def expected_objective(surrogate: Surrogate, trial: Trial) -> float:
    """Return the mean over seeds of a trial's objective."""
    prediction, costs = surrogate.predict(trial), surrogate.features.flops
    mean = np.exp(prediction.log_error + prediction.deviation**2 / 2)
    error = prediction.guessing * GUESSING_ERROR + (1 - prediction.guessing) * mean
    ratio = costs.count(Cell.from_configuration(trial.configuration)) / costs.largest
    return float(error + surrogate.facts.flops_weight * ratio)


def expected_of_incumbents(folder: Path, surrogate: Surrogate) -> dict[str, dict[int, float]]:
    """Return optimizer -> repeat -> what is expected of the configuration with the lowest objective."""
    trials = load_run(folder).trials
    full = trials[trials["epochs"] == surrogate.facts.epochs]
    values: dict[str, dict[int, float]] = {}
    for (optimizer, repeat), run in full.groupby(["optimizer", "repeat"], sort=False):
        lowest = run.loc[run["objective"].idxmin()]
        trial = Trial(0, configuration_of(lowest, joint_space().names), surrogate.facts.epochs, "model")
        values.setdefault(str(optimizer), {})[int(repeat)] = expected_objective(surrogate, trial)
    return values


def main() -> None:
    """Print a table of optimizers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernel", action="store_true")
    arguments = parser.parse_args()
    if arguments.kernel:
        from second_surrogate import fit_surrogate

        surrogate = fit_surrogate()
    else:
        surrogate = read_surrogate(FILE)
    values = expected_of_incumbents(arguments.folder, surrogate)
    pairs = {pair.second: pair for pair in compare(values, REFERENCE).pairs}
    print("| optimizer | expected objective of the incumbent | bo-fm - it, 95% interval | lower, higher | p (Holm) |")
    print("|---|---|---|---|---|")
    for name, mine in sorted(values.items(), key=lambda one: mean_and_error(one[1])[0]):
        mean, error = mean_and_error(mine)
        rest = "| – | – | – |"
        if pair := pairs.get(name):
            lower = sum(mine[repeat] < values[REFERENCE][repeat] for repeat in mine)
            higher = sum(mine[repeat] > values[REFERENCE][repeat] for repeat in mine)
            interval = f"{pair.difference:+.4f} ({pair.low:+.4f} to {pair.high:+.4f})"
            rest = f"| {interval} | {lower}, {higher} | {pair.p_corrected:.3f} |"
        print(f"| {name} | {mean:.4f} ± {error:.4f} {rest}")


if __name__ == "__main__":
    main()
