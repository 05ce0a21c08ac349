"""How converged the fit and the search are: likelihoods and expected improvements on data of the joint space.

    python benchmarks/convergence.py [--data FILE] [--reference FILE] [--json FILE] [--seeds N]
        [--first-seed K | --fresh | --seeds-from FILE]

Fit: negative log likelihood per observation of the standardised objective, of the paper's mode (maximum likelihood, ten
cold starts) and of the default mode's settings without its prior; the best and the worst over the seeds.
Search: log EI of the default mode's search, median and worst over the seeds, beside the paper's (40 starts from 100,000
points), at the same fitted parameters.

--data: a JSON file with X [n][18] (log learning rate, momentum, log weight decay, gamma, r1, r2, then 12 vertex
indices), bounds [6][2] and y [n]; 200 points of the joint space with a synthetic y unless given.
--reference: a JSON file with results [{n, x, ei_float64, params}] of another implementation on these data, with
parameters in its authors' form (distances in standard deviations of the data, alpha / (D P), factors normalised). Then
EI is searched at its parameters, too.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import seeds as seeds_of
import torch
from suggestion import JOINT_POINTS, dataset

from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.fit import PAPER_FIT, FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import FAST_KERNELS
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import (
    PAPER_SEARCH,
    SearchSettings,
    SearchState,
    Surface,
    alternating_search,
    start_points,
)
from fmnas.optimizers.kernels import ModLap
from fmnas.search_spaces import Space, joint_space

SIZES = (20, 50, 100, 200)
FORM = FAST_KERNELS["modlap"]


def observations(space: Space, n: int, path: Path) -> tuple[np.ndarray, Points, torch.Tensor]:
    """(X [n, 18], the same as points, standardised y [n])."""
    configurations, ys = dataset(space, n, path)
    X, y = space.encode_all(configurations), np.array(ys)
    return X, Points.from_encoded(space, X), torch.from_numpy((y - y.mean()) / y.std(ddof=1))


def best_ei(
    space: Space, X: np.ndarray, posterior: Posterior, y: torch.Tensor, settings: SearchSettings, seed: int
) -> float:
    """The largest log EI that a search finds."""
    surface, region = Surface(posterior, LogEI(float(y.min()))), Region(space)
    state = SearchState(X[int(y.argmin())], X, settings, np.random.default_rng(seed))
    starts = start_points(surface, region, state)
    return float(alternating_search(surface, region, starts, settings)[1][0])


def at_parameters(space: Space, points: Points, y: torch.Tensor, parameters: dict[str, Any]) -> Posterior:
    """The process under the parameters of an implementation in the authors' form."""
    D, P, deviation = points.C.shape[1], points.V.shape[1], points.C.std(0)
    theirs = ModLap(space, normalised=True)
    theirs.lengthscale, theirs.alpha, theirs.beta = parameters["lengthscale"], parameters["alpha"], parameters["beta"]
    here = torch.cat([points.C[:1] / deviation, points.V[:1].double()], 1)
    scale = parameters["outputscale"] * theirs(here, here).to_dense().item()  # of a point with itself
    theta = torch.tensor(parameters["lengthscale"]).double() * deviation  # in unit-cube lengths
    alpha, beta = torch.tensor(parameters["alpha"]).double() / (D * P), torch.tensor(parameters["beta"]).double()
    likelihood = Likelihood(FMKernel(space, FORM), points, y)
    eta = torch.cat([theta, alpha, beta, torch.ones(2).double()]).log()
    own = float(likelihood.correlation(eta)[0, 0])
    eta[-1] = np.log(parameters["noise"] * own / scale)
    posterior = Posterior(likelihood, eta)
    posterior.weights = posterior.inverse @ (y - parameters["mean"])
    posterior.mu, posterior.s2 = parameters["mean"], scale / own
    return posterior


def row(n: int, path: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Both modes on the first n observations."""
    space = joint_space()
    X, points, y = observations(space, n, path)
    likely = FitSettings(prior=False)
    paper, default = (
        [Surrogate(FMKernel(space, FORM), settings).fit(points, y, np.random.default_rng(seed)) for seed in seeds]
        for settings in (PAPER_FIT, likely)
    )
    best = min(paper, key=lambda fit: fit.nll)
    values = [best_ei(space, X, best.posterior, y, SearchSettings(), seed) for seed in seeds]
    return {
        "n": n,
        "paper_nll": [fit.nll for fit in paper],
        "default_nll": [fit.nll for fit in default],
        "default_log_ei": values,
        "paper_log_ei": best_ei(space, X, best.posterior, y, PAPER_SEARCH, seeds[0]),
    }


def against(reference: dict[str, Any], path: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """EI of the default search at the reference's parameters, beside what the reference found."""
    space = joint_space()
    X, points, y = observations(space, reference["n"], path)
    posterior = at_parameters(space, points, y, reference["params"])
    c, v = np.array(reference["x"][:6]), reference["x"][6:]
    bounds = np.array(json.loads(path.read_text())["bounds"])
    x = np.concatenate([(c - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0]), v])
    at_theirs = Surface(posterior, LogEI(float(y.min()))).value(Points.from_encoded(space, x[None])).exp()
    values = [np.exp(best_ei(space, X, posterior, y, SearchSettings(), seed)) for seed in seeds]
    return {"n": reference["n"], "theirs": reference["ei_float64"], "theirs_here": float(at_theirs), "ours": values}


def main() -> None:
    """Compute and print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=JOINT_POINTS)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--json", type=Path)
    seeds_of.add_arguments(parser, 5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        report(arguments, seeds_of.choose_seeds(arguments))


def report(arguments: argparse.Namespace, seeds: seeds_of.Seeds) -> None:
    """The tables, and the file of figures."""
    print(seeds)
    print(f"{'n':>5} {'nll, paper mode':>20} {'nll, default':>20} {'log EI, default':>22} {'log EI, paper':>14}")
    rows, references = [], []
    for n in SIZES:
        values = row(n, arguments.data, seeds.values)
        rows.append(values)
        paper, default, ei = values["paper_nll"], values["default_nll"], values["default_log_ei"]
        print(
            f"{n:>5} {min(paper):>10.4f}{max(paper):>10.4f} {min(default):>10.4f}{max(default):>10.4f} "
            f"{np.median(ei):>11.4f}{min(ei):>11.4f} {values['paper_log_ei']:>14.4f}",
            flush=True,
        )
    if arguments.reference:
        print(f"\n{'n':>5} {'EI, reference':>14} {'its point, here':>16} {'EI, ours (median, worst)':>26}")
        for result in json.loads(arguments.reference.read_text())["results"]:
            values = against(result, arguments.data, seeds.values)
            references.append(values)
            ours = f"{np.median(values['ours']):.4f}, {min(values['ours']):.4f}"
            print(f"{values['n']:>5} {values['theirs']:>14.4f} {values['theirs_here']:>16.4f} {ours:>26}", flush=True)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"seeds": seeds.to_dict(), "rows": rows, "references": references}, indent=2)
        )


if __name__ == "__main__":
    main()
