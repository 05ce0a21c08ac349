"""BO-FM in an Optuna study: pip install 'fmnas[optuna]'."""

import math

import optuna

from fmnas.integrations.optuna import BOFMSampler

TRIALS = 25


def objective(trial: optuna.Trial) -> float:
    """A stand-in for a training; the minimum, 0, is at adam with rate 0.003, 3 layers and no dropout."""
    optimizer = trial.suggest_categorical("optimizer", ["sgd", "adam", "rmsprop"])
    rate = trial.suggest_float("learning_rate", 1e-5, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 6)
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    loss = 0.3 * (optimizer != "adam") + 0.2 * math.log10(rate / 0.003) ** 2
    return loss + 0.05 * (layers - 3) ** 2 + dropout / 5


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=BOFMSampler(seed=0))
    study.optimize(objective, n_trials=TRIALS)
    print(f"{study.best_value:.4f} with {study.best_params}")
