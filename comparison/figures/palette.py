"""Colours for light pages and paper and for dark pages; and one style per optimizer, the same in every figure.

Figures are drawn in the light colours. On the page each colour becomes a CSS variable, so that figures follow the
reader's light or dark mode.
"""

from collections.abc import Iterable
from dataclasses import dataclass

INK, SOFT, LINE, GROUND, CARD = "#1c2126", "#5b6670", "#d9dee3", "#ffffff", "#f5f7f9"
PAGE_COLOURS = {
    "ink": (INK, "#e6e9ec"),
    "soft": (SOFT, "#a3adb6"),
    "line": (LINE, "#39424b"),
    "ground": (GROUND, "#14181c"),
    "card": (CARD, "#1d2329"),
    "warn": ("#9a5b00", "#f0b04f"),
    "link": ("#0067a0", "#6db8e8"),
}
"""Name of a CSS variable -> (light, dark)."""

# Okabe and Ito's palette, safe for colour blindness, without its yellow, which is too faint on white. The dark set has
# the same hues, but is lighter. Black is #010101, because an SVG omits a fill of #000000.
SERIES = {
    "blue": ("#0072b2", "#4da3e0"),
    "vermilion": ("#d55e00", "#f58a4b"),
    "green": ("#009e73", "#2fc59b"),
    "purple": ("#cc79a7", "#e7a6c9"),
    "orange": ("#e69f00", "#f3c04b"),
    "sky": ("#56b4e9", "#a8ddf8"),
    "black": ("#010101", "#fafafa"),
}
"""Colours of optimizers: name of a CSS variable -> (light, dark)."""
SERIES_COLOURS = tuple(light for light, _ in SERIES.values())
CSS_COLOURS = PAGE_COLOURS | SERIES
BLUE = SERIES_COLOURS[0]
LINES = (
    (0.0, ()),
    (0.0, (4.0, 1.5)),
    (0.0, (6.0, 1.5, 1.2, 1.5)),
    (0.0, (1.2, 1.2)),
    (0.0, (6.0, 1.2, 1.2, 1.2, 1.2, 1.2)),
)
"""Solid, then dashes: (offset, (on, off, ...)) in line widths."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FIXED = ("bo-fm", "regularized-evolution", "bohb", "random")
"""These optimizers look the same in every report, and come first, in this order."""


@dataclass(frozen=True)
class Style:
    """How one optimizer is drawn: colour, dashes and marker of its line."""

    colour: str
    line: tuple[float, tuple[float, ...]]
    marker: str


def styles(optimizers: Iterable[str]) -> dict[str, Style]:
    """A style per optimizer, in the order of the legend: those of FIXED first, then by name."""
    names = set(optimizers)
    unfixed = sorted(names - set(FIXED))
    places = {name: i for i, name in enumerate((*FIXED, *unfixed)) if name in names}
    return {
        name: Style(SERIES_COLOURS[i % len(SERIES_COLOURS)], LINES[i % len(LINES)], MARKERS[i % len(MARKERS)])
        for name, i in places.items()
    }


def css_variables() -> dict[str, str]:
    """Light colour -> the CSS variable that replaces it on the page."""
    return {light: f"var(--{name})" for name, (light, _) in CSS_COLOURS.items()}


def css_declarations(dark: bool) -> str:
    """The CSS declarations of all variables, for light or dark mode."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in CSS_COLOURS.items())
