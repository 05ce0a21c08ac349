"""Which variables matter, how much is interaction, and how sure that is: functional ANOVA of exported studies.

    fmnas run func3c -o 'optimizers=[random]' -o hypotheses=all --out runs/space
    fmnas export runs/space --optuna sqlite:///studies.db
    python examples/importance.py sqlite:///studies.db func3c/random

It fits Optuna's fANOVA (Hutter et al. 2014) to each repeat. A variable's share of the objective's variance is its mean
over the repeats, with a bootstrap interval over them; what no variable explains alone is interaction. It needs
`pip install optuna scikit-learn`.
"""

import sys

import numpy as np
import optuna
from optuna.importance import FanovaImportanceEvaluator

from fmnas.comparison.analysis.resampling import mean_interval

INTERACTIONS = "interactions of any"


def explained_shares(study):
    """Return variable -> the share of the variance that it explains alone, and the rest."""
    main_effects = FanovaImportanceEvaluator(seed=0).evaluate(study)
    return {**main_effects, INTERACTIONS: 1 - sum(main_effects.values())}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/importance.py STORAGE EXPERIMENT/OPTIMIZER")
    storage, runs = sys.argv[1:]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    studies = optuna.get_all_study_names(storage)
    names = [name for name in studies if name.startswith(f"{runs}/")]
    if not names:
        sys.exit(f"{storage} has no study {runs}/repeat-0; it has: {', '.join(studies) or 'none'}")
    repeats = [explained_shares(optuna.load_study(study_name=name, storage=storage)) for name in names]
    shares = {variable: np.array([repeat[variable] for repeat in repeats]) for variable in repeats[0]}
    print(f"share of the objective's variance, {len(repeats)} repeats of {runs}")
    for variable, values in sorted(shares.items(), key=lambda share: -share[1].mean()):
        low, high = mean_interval(values)
        print(f"{variable:20} {values.mean():5.2f}   {low:.2f} to {high:.2f}")
