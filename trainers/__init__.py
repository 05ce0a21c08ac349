"""What one evaluation is: data, network, FLOPs, the training itself; tables to learn from, and synthetic problems.

Needs torch and numpy alone; torchvision only where it downloads data, scikit-learn only for its data and
support vectors, xgboost only for boosting.
"""

from fmnas.trainers.arrangement import ARRANGEMENTS, Arrangement
from fmnas.trainers.boosting import XGB_DIGITS, XGB_FASHION_MNIST, BoostingTask, BoostingTrainer
from fmnas.trainers.boston import boston_from_environment, boston_table
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.data import Split, digits_split, fashion_mnist_split
from fmnas.trainers.errors import (
    DataError,
    DeviceFailedError,
    EvaluationStoppedError,
    TrainerError,
    TrainingFailedError,
)
from fmnas.trainers.fashion_mnist import Source, default_cache, find_fashion_mnist, root_from_environment
from fmnas.trainers.final_data import final_digits, final_fashion_mnist
from fmnas.trainers.final_training import FinalSplit, FinalTrainer
from fmnas.trainers.flops import count_flops, flops_ratio
from fmnas.trainers.function_trainer import FunctionTrainer
from fmnas.trainers.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.initial_design import authors_initial_design
from fmnas.trainers.network import Network, build_network
from fmnas.trainers.optional import optional_module
from fmnas.trainers.support_vectors import nusvr_space, nusvr_trainer
from fmnas.trainers.synthetic import SYNTHETIC_PROBLEMS, SyntheticProblem
from fmnas.trainers.tables import Table, TableSplit, diabetes_table, digits_table, fashion_mnist_table
from fmnas.trainers.trainer import Report, Stop, Trainer, check_trial, ignore, never

__all__ = [
    "ARRANGEMENTS",
    "SYNTHETIC_PROBLEMS",
    "XGB_DIGITS",
    "XGB_FASHION_MNIST",
    "Arrangement",
    "BoostingTask",
    "BoostingTrainer",
    "Checkpoints",
    "DataError",
    "DeviceFailedError",
    "EvaluationStoppedError",
    "FinalSplit",
    "FinalTrainer",
    "FunctionTrainer",
    "ImageTrainer",
    "Network",
    "Report",
    "Source",
    "Split",
    "Stop",
    "SyntheticProblem",
    "Table",
    "TableSplit",
    "Trainer",
    "TrainerError",
    "TrainingFailedError",
    "TrainingSettings",
    "authors_initial_design",
    "boston_from_environment",
    "boston_table",
    "build_network",
    "check_trial",
    "count_flops",
    "default_cache",
    "diabetes_table",
    "digits_split",
    "digits_table",
    "fashion_mnist_split",
    "fashion_mnist_table",
    "final_digits",
    "final_fashion_mnist",
    "find_fashion_mnist",
    "flops_ratio",
    "ignore",
    "never",
    "nusvr_space",
    "nusvr_trainer",
    "optional_module",
    "root_from_environment",
]
