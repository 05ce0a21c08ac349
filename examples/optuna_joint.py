"""An Optuna study on `joint_recorded`, the joint problem drawn from recorded trainings (docs/joint.md)."""

import optuna

from fmnas.integrations.optuna_storage import export_distributions
from fmnas.search_spaces import Trial
from fmnas.trainers.surrogate.problem import JOINT_RECORDED

EVALUATIONS, EPOCHS = 60, 3

if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, multivariate=True))
    distributions = export_distributions(JOINT_RECORDED.space)
    for number in range(EVALUATIONS):
        trial = study.ask(distributions)
        evaluation = JOINT_RECORDED.trainer.evaluate(Trial(number, trial.params, EPOCHS, "model", seed=number))
        trial.set_user_attr("seconds", evaluation.seconds)
        study.tell(trial, evaluation.objective)
    seconds = sum(trial.user_attrs["seconds"] for trial in study.trials)
    print(f"{study.best_value:.4f} after {EVALUATIONS} trainings, which would have taken {seconds / 60:.0f} minutes")
