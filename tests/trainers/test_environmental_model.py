"""The model of two spills: concentrations of the published code, its error, and the optimum."""

import numpy as np
import pytest

from fmnas.trainers.functions.environmental_model import (
    TRUTH,
    concentrations,
    diffusion,
    published_code,
    spills,
)

TRUE_CONCENTRATIONS = {
    published_code: [
        [2.7529632787052893, 1.9466390027300615, 3.1941555981519363, 2.8647732759554603],
        [2.117376637790779, 1.151544744550635, 3.3255815334386942, 2.374634304207432],
        [0.5336862750492988, 0.07315712871686761, 2.1922796158590163, 1.735526690308424],
    ],
    diffusion: [
        [2.7529632787052893, 1.9466390027300615, 3.1941555981519363, 2.8647732759554603],
        [2.1696864181159534, 1.728158996646262, 4.070579271984099, 3.1898904497051253],
        [0.6216255664726247, 0.9250168532528231, 3.1485675095092365, 2.682443481541168],
    ],
}
"""At places 0, 1, 2.5 (rows) and times 15, 30, 45, 60."""


@pytest.mark.parametrize("exponent", TRUE_CONCENTRATIONS)
def test_concentrations_of_the_truth(exponent: object) -> None:
    assert concentrations(*TRUTH, exponent) == pytest.approx(np.array(TRUE_CONCENTRATIONS[exponent]), rel=1e-12)


def test_the_second_spill_has_no_effect_before_its_time() -> None:
    late, never = (concentrations(10.0, 0.07, 1.5, tau, diffusion) for tau in (59.0, 1e9))
    differs = late != never
    assert differs.tolist() == [[False, False, False, True]] * 3


def test_the_published_error_matters_only_away_from_the_first_spill() -> None:
    assert np.array_equal(diffusion(0.07)[0], published_code(0.07)[0])
    assert (diffusion(0.07)[1:] > published_code(0.07)[1:]).all()


def test_configurations_are_decoded() -> None:
    ends = [spills({"x1": x, "x2": x, "x3": x, "h1": h}) for x, h in ((-1.0, 0), (0.0, 142), (1.0, 284))]
    assert ends == [
        (7.0, 0.02, 0.01, 30.01),
        (10.0, pytest.approx(0.07), pytest.approx(1.505), 30.152),
        (13.0, pytest.approx(0.12), 3.0, pytest.approx(30.294)),
    ]
