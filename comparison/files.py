"""The edge: how figures and pages reach the disk. A reader sees a whole file or none."""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from fmnas.comparison.errors import ReportError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 160
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
"""Without them the SVG holds no date and no address: the same figure gives the same bytes."""


def save_figure(figure: "Figure", folder: Path, name: str) -> tuple[Path, Path]:
    """Write folder/name.png (160 dots per inch) and folder/name.svg; returns the two paths."""
    png = BytesIO()
    with _drawing(name):
        figure.savefig(png, format="png", dpi=DPI)
    return write_aside(folder / f"{name}.png", png.getvalue()), write_aside(
        folder / f"{name}.svg", _svg(figure, name).encode()
    )


def inline_svg(figure: "Figure", name: str, description: str) -> str:
    """The figure as an <svg> element for a page, its ids prefixed with `name` so that two figures can share the page.

    description: what a screen reader says.
    """
    svg = _svg(figure, name)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def write_aside(path: Path, content: bytes) -> Path:
    """Write a file beside its place, then rename it. Raises ReportError where that is not allowed."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise ReportError(
            f"cannot write {path}: {error}; free the place or choose a folder that can be written"
        ) from error
    return path


def _svg(figure: "Figure", name: str) -> str:
    svg = BytesIO()
    with _drawing(name):
        figure.savefig(svg, format="svg", metadata=_NO_METADATA)
    return svg.getvalue().decode()


@contextmanager
def _drawing(name: str) -> Iterator[None]:
    """Deterministic ids, and no warning about a letter that the font lacks: it is drawn as a box."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
