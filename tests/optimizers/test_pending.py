"""What the model believes of trials without a result: that they will be what it predicts."""

import numpy as np
import pytest
import torch

from fmnas.optimizers import BOFM, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space

SPACE = Space([Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 4)])
QUICK = Mode(FitSettings(starts=2, screening=5), SearchSettings(100, 30, 3, 5, 5))
TOLD, AHEAD = 9, 4


def score(configuration: Configuration) -> float:
    x, k = float(configuration["x"]), int(configuration["k"])
    return (x - 0.3) ** 2 + 0.1 * abs(k - 3) + 0.2 * (configuration["op"] != "b")


@pytest.fixture(scope="module")
def believed() -> Posterior:
    """The process that an ask searches while AHEAD trials are pending."""
    used: list[Posterior] = []

    class Noted(BOFM):
        def candidates(self, surface: Surface, state: SearchState) -> Points:
            used.append(surface.posterior)
            return super().candidates(surface, state)

    optimizer = Noted(SPACE, seed=2, initial_design=random_design(SPACE, 6, 0), mode=QUICK)
    for _ in range(TOLD):
        trial = optimizer.ask()
        optimizer.tell(trial, score(trial.configuration))
    for _ in range(AHEAD):
        optimizer.ask()
    optimizer.ask()
    return used[-1]


def alone(believed: Posterior) -> Posterior:
    """The process of the trials with results, under the same parameters."""
    results = believed.likelihood.points.select(torch.arange(TOLD))
    likelihood = believed.likelihood
    return Posterior(Likelihood(likelihood.kernel, results, likelihood.y[:TOLD]), believed.eta)


def anywhere() -> Points:
    return Points.from_encoded(SPACE, SPACE.sample_encoded(np.random.default_rng(5), 200))


def test_a_pending_trial_is_believed_at_its_predicted_mean(believed: Posterior) -> None:
    """mu + r A^-1 (y - mu), with the mean and the correlations of the results."""
    process, points, y = alone(believed), believed.likelihood.points, believed.likelihood.y
    assert len(points) == TOLD + AHEAD
    C, V = points.C[TOLD:], points.V[TOLD:]
    r, R = (
        process.conditioned.correlate(Points(c, v))[0]
        for c, v in ((C, V), (process.likelihood.points.C, process.likelihood.points.V))
    )
    A = R + process.g * torch.eye(TOLD, dtype=torch.float64)
    ones, known = torch.ones(TOLD, dtype=torch.float64), y[:TOLD]
    mu = (ones @ torch.linalg.solve(A, known)) / (ones @ torch.linalg.solve(A, ones))
    expected = mu + r @ torch.linalg.solve(A, known - mu)
    np.testing.assert_allclose(y[TOLD:], expected, rtol=1e-6, atol=1e-8)
    assert (y[TOLD:] - y[:TOLD].min()).abs().max() > 0.05, "a mean is not just the best value"


def test_pending_trials_leave_the_output_scale_as_it_was(believed: Posterior) -> None:
    """Predicted values fit perfectly: they would make the model the surer, the farther ahead it is asked."""
    assert believed.s2 == pytest.approx(alone(believed).s2, rel=1e-9)


def test_pending_trials_change_no_prediction_and_leave_less_to_learn_near_them(believed: Posterior) -> None:
    process, points = alone(believed), anywhere()
    before, unsure_before = process.predict(points)
    after, unsure_after = believed.predict(points)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    assert (unsure_after <= unsure_before * (1 + 1e-9)).all()
    pending = believed.likelihood.points.select(torch.arange(TOLD, TOLD + AHEAD))
    _, unsure_before = process.predict(pending)
    _, unsure_after = believed.predict(pending)
    assert (unsure_after < 0.5 * unsure_before).all()


def test_a_pending_trial_that_is_believed_best_lowers_the_incumbent() -> None:
    """Of a slope, results at its upper end: further down, the first suggestion is believed to be the lowest."""
    line, surfaces = Space([Real("x", 0.0, 1.0)]), list[Surface]()

    class Noted(BOFM):
        def candidates(self, surface: Surface, state: SearchState) -> Points:
            surfaces.append(surface)
            return super().candidates(surface, state)

    design: list[Configuration] = [{"x": x} for x in (1.0, 0.9, 0.8, 0.7, 0.6)]
    optimizer = Noted(line, initial_design=design, mode=QUICK)
    for _ in design:
        trial = optimizer.ask()
        optimizer.tell(trial, float(trial.configuration["x"]))
    for _ in range(2):
        optimizer.ask()
    observed, believed = (surface.posterior.likelihood.y for surface in surfaces)
    assert float(believed[-1]) < float(observed.min()) - 0.1
    assert [surface.acquisition for surface in surfaces] == [LogEI(float(observed.min())), LogEI(float(believed[-1]))]


def test_pending_trials_on_a_smooth_objective_are_apart() -> None:
    space = Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0)])
    optimizer = BOFM(space, seed=1, initial_design=random_design(space, 5, 0), mode=QUICK)
    for _ in range(8):
        trial = optimizer.ask()
        x, z = (float(value) for value in trial.configuration.values())
        optimizer.tell(trial, (x - 0.3) ** 2 + (z - 0.6) ** 2)
    pending = np.array([list(optimizer.ask().configuration.values()) for _ in range(4)], dtype=float)
    distances = np.linalg.norm(pending[:, None] - pending, axis=2)[np.triu_indices(4, 1)]
    assert distances.min() > 0.01
