import pytest

from fmnas.comparison.figures.palette import (
    FIXED,
    MARKERS,
    PAGE_COLOURS,
    SERIES,
    SERIES_COLOURS,
    css_declarations,
    css_variables,
    styles,
)


def luminance(colour):
    """WCAG 2's relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_styles_are_fixed_by_name():
    look = styles(["zeta", "bo-fm", "alpha", "zeta", "bohb"])
    assert list(look) == ["bo-fm", "bohb", "alpha", "zeta"]
    assert look["bo-fm"].colour == SERIES_COLOURS[0]
    for name in FIXED:
        assert styles([name])[name] == styles([*FIXED, "other"])[name]
    many = styles([f"optimizer {i}" for i in range(30)]).values()
    assert len({(s.colour, s.line, s.marker) for s in many}) == 30
    assert len({s.marker for s in many}) == len(MARKERS)


@pytest.mark.parametrize("dark", [False, True])
def test_contrasts(dark):
    """WCAG 2: 4.5 for text. Lines also have dashes and markers: two of Okabe and Ito's hues are lighter than 3."""
    grounds = [PAGE_COLOURS[name][dark] for name in ("ground", "card")]
    for ground in grounds:
        for name in ("ink", "soft", "warn", "link"):
            assert contrast(PAGE_COLOURS[name][dark], ground) >= 4.5, name
    for name, pair in SERIES.items():
        assert contrast(pair[dark], PAGE_COLOURS["ground"][dark]) >= (5.0 if dark else 2.0), name


def test_every_colour_is_a_variable_in_both_modes():
    names = {value[4:-1] for value in css_variables().values()}
    assert names == {"--" + name for name in (*PAGE_COLOURS, *SERIES)}
    for dark in (False, True):
        assert {part.split(":")[0].strip() for part in css_declarations(dark).split(";")[:-1]} == names
