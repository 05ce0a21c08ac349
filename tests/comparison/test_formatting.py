from math import nan

import pytest

from fmnas.comparison.analysis.formatting import (
    format_count,
    format_duration,
    format_interval,
    format_number,
    format_share,
    format_value,
    format_with_error,
    join_names,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_with_error(0.0685, 0.000379), "0.06850 ± 0.00038"),
        (format_with_error(1234.5, 210.0), "1234 ± 210"),
        (format_with_error(-0.20632563491, 7.7e-9), "-0.2063256349 ± 0.0000000077"),
        (format_with_error(1.0, nan), "1.000"),
        (format_with_error(1.23456e300, 4e298), "1.235e+300 ± 4.0e+298"),
        (format_with_error(1.23456e-300, 4e-302), "1.235e-300 ± 4.0e-302"),
        (format_number(None), "–"),
        (format_number(nan), "–"),
        (format_number(0.0685), "0.06850"),
        (format_number(100.0), "100.0"),
        (format_duration(nan), "–"),
        (format_duration(300), "5.0 min"),
        (format_duration(187_920), "52.2 h"),
        (format_share(None), "–"),
        (format_share(0.0), "0%"),
        (format_share(0.001), "< 1%"),
        (format_count(nan), "–"),
        (format_count(2.25), "2.2"),
        (format_interval(1.0, nan), "–"),
        (format_interval(1.0, 2.0), "1.000 to 2.000"),
        (format_value(None), "–"),
        (format_value(0.123456), "0.1235"),
        (format_value([1]), "[1]"),
        (join_names([]), ""),
        (join_names(list("abc")), "a, b and c"),
    ],
)
def test_texts(text, expected):
    assert text == expected
