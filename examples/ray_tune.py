"""BO-FM as the search algorithm of a Ray Tune run: pip install 'fmnas[tune]'. Starting Ray takes about 20 seconds."""

import math
import tempfile
from typing import Any

import ray
from ray import tune

from fmnas.integrations.ray_tune import BOFMSearch

TRIALS = 12


def train(config: dict[str, Any]) -> dict[str, float]:
    """A stand-in for a training; the minimum loss, 0, is at adam with rate 0.003 and 3 layers."""
    loss = 0.3 * (config["optimizer"]["name"] != "adam") + 0.2 * math.log10(config["optimizer"]["rate"] / 0.003) ** 2
    return {"loss": loss + 0.05 * (config["layers"] - 3) ** 2}


if __name__ == "__main__":
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space={
                "optimizer": {"name": tune.choice(["sgd", "adam"]), "rate": tune.loguniform(1e-5, 1e-1)},
                "layers": tune.randint(1, 7),
            },
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=TRIALS,
                search_alg=BOFMSearch(seed=0, n_startup_trials=6),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        best = tuner.fit().get_best_result()
    print(f"{best.metrics['loss']:.4f} with {best.config}")
