"""What one evaluation is: data, network, FLOPs, the training itself, and synthetic problems.

Needs torch and numpy alone; torchvision only where it downloads data, scikit-learn only for its digits.
"""

from fmnas.trainers.data import Split, digits_split, fashion_mnist_split
from fmnas.trainers.errors import DataError, TrainerError
from fmnas.trainers.fashion_mnist import Source, default_cache, find_fashion_mnist, root_from_environment
from fmnas.trainers.flops import count_flops, flops_ratio
from fmnas.trainers.function_trainer import FunctionTrainer
from fmnas.trainers.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.initial_design import authors_initial_design
from fmnas.trainers.network import Network, build_network
from fmnas.trainers.synthetic import SYNTHETIC_PROBLEMS, SyntheticProblem
from fmnas.trainers.trainer import Report, Trainer, check_trial, ignore

__all__ = [
    "SYNTHETIC_PROBLEMS",
    "DataError",
    "FunctionTrainer",
    "ImageTrainer",
    "Network",
    "Report",
    "Source",
    "Split",
    "SyntheticProblem",
    "Trainer",
    "TrainerError",
    "TrainingSettings",
    "authors_initial_design",
    "build_network",
    "check_trial",
    "count_flops",
    "default_cache",
    "digits_split",
    "fashion_mnist_split",
    "find_fashion_mnist",
    "flops_ratio",
    "ignore",
    "root_from_environment",
]
