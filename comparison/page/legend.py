"""The legend of the page's curves, as HTML: it breaks into lines where the page is narrow."""

from collections.abc import Iterable
from html import escape

import numpy as np

from fmnas.comparison.figures.palette import Style, styles, variables

_WIDTH, _HEIGHT, _SIZE = 42, 14, 9.0


def legend(optimizers: Iterable[str]) -> str:
    """A line with dashes and a marker for each optimizer, as in the curves."""
    items = [f"<span>{_sample(style)}{escape(name)}</span>" for name, style in styles(optimizers).items()]
    return f"<p class='legend'>{''.join(items)}</p>" if items else ""


def _sample(style: Style) -> str:
    colour = variables()[style.colour]
    dashes = " ".join(f"{2 * length:g}" for length in style.line[1])
    dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
    line = f"<path d='M0 {_HEIGHT / 2:g}H{_WIDTH}' stroke='{colour}' stroke-width='2.5'{dashed}/>"
    marker = f"<path d='{_marker(style.marker)}' fill='{colour}'/>"
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' aria-hidden='true'>{line}{marker}</svg>"


def _marker(marker: str) -> str:
    """matplotlib's marker as an SVG path."""
    from matplotlib.markers import MarkerStyle

    drawn = MarkerStyle(marker)
    shapes = drawn.get_path().transformed(drawn.get_transform()).to_polygons()
    paths = []
    for shape in shapes:
        corners = np.asarray(shape, dtype=float).tolist()
        points = [f"{_WIDTH / 2 + _SIZE * x:.1f} {_HEIGHT / 2 - _SIZE * y:.1f}" for x, y in corners]
        paths.append(f"M{'L'.join(points)}Z")
    return "".join(paths)
