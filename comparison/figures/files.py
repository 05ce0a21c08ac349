"""The edge: how figures and pages reach the disk. A reader sees a whole file or none."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmnas.comparison.analysis.trials import ReportNotWritten
from fmnas.comparison.figures.palette import variables
from fmnas.search_spaces.files import write_aside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 160
FORMATS = ("png", "svg", "pdf")
_NO_METADATA = {
    "png": {"Software": None},
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}
"""Without them a file holds no date and no address: the same figure gives the same bytes."""
_COLOUR = re.compile(r"\b(fill|stroke)(: |=\")(#[0-9a-f]{6})")
_VIEW_BOX = re.compile(r'<svg\b[^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')


def save_figure(figure: "Figure", folder: Path, name: str) -> tuple[Path, ...]:
    """Write folder/name.png (160 dots per inch), .svg and .pdf (letters as letters); returns the paths."""
    settle(figure)
    return tuple(write_bytes(folder / f"{name}.{kind}", _bytes(figure, name, kind)) for kind in FORMATS)


def inline_svg(figure: "Figure", name: str, description: str, least: float = 0.0) -> str:
    """The figure as an <svg> element for a page.

    Its ids are prefixed with `name`, so that two figures can share the page; its colours become the page's variables,
    its letters the page's letters. description: what a screen reader says. least: it is never narrower than this share
    of its own width (in CSS pixels a point), and scrolls instead.
    """
    settle(figure)
    svg = _bytes(figure, name, "svg", letters=True).decode()
    svg = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    known = variables()
    svg = _COLOUR.sub(lambda found: f"{found[1]}{found[2]}{known.get(found[3], found[3])}", svg)
    return _VIEW_BOX.sub(lambda found: _opening(float(found[1]), float(found[2]), description, least), svg, count=1)


def settle(figure: "Figure") -> None:
    """Find the places of all parts once; drawing the figure again then takes half the time and moves nothing."""
    engine = figure.get_layout_engine()
    if engine is not None:
        with _drawing(""):
            engine.execute(figure)
        figure.set_layout_engine(None)


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file whole; it can be made again, so nobody waits for the disk. Raises ReportNotWritten."""
    try:
        write_aside(path, content, durable=False)
    except OSError as error:
        raise ReportNotWritten(
            f"cannot write {path}: {error}; make room or choose a folder that can be written, and report again"
        ) from error
    return path


def _opening(width: float, height: float, description: str, least: float) -> str:
    style = f"max-width: {1.45 * width:.0f}px" + (f"; min-width: {least * width:.0f}px" if least else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'aria-label="{escape(description)}" viewBox="0 0 {width:g} {height:g}" style="{style}">'
    )


def _bytes(figure: "Figure", name: str, kind: str, letters: bool = False) -> bytes:
    """The figure in one of FORMATS. letters: in an SVG, text stays text; else its outlines are drawn."""
    import matplotlib as mpl
    from matplotlib.backend_bases import get_registered_canvas_class

    content = BytesIO()
    figure.dpi = DPI
    with _drawing(name), mpl.rc_context({"svg.fonttype": "none" if letters else "path", "pdf.fonttype": 42}):
        # `savefig` would draw it once more to find a layout, which is settled.
        getattr(get_registered_canvas_class(kind)(figure), f"print_{kind}")(content, metadata=_NO_METADATA[kind])
    return content.getvalue()


@contextmanager
def _drawing(name: str) -> Iterator[None]:
    """Deterministic ids, small fonts, and no warning about a letter that the font lacks: it is drawn as a box."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings(), _without_layout_tables():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@contextmanager
def _without_layout_tables() -> Iterator[None]:
    """Leave the tables for kerning and ligatures out of a PDF's fonts: no PDF reads them.

    matplotlib cuts a font to its letters for every PDF, and these tables take more than half of that time. It takes
    fontTools' default options, which nothing public sets.
    """
    from fontTools.subset import Options

    options: Any = Options
    before = getattr(options, "_drop_tables_default", None)
    if before is None:  # another fontTools
        yield
        return
    options._drop_tables_default = [*before, "GDEF", "GPOS", "GSUB", "kern"]
    try:
        yield
    finally:
        options._drop_tables_default = before
