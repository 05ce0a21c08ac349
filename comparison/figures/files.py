"""How figures and pages are written: a reader sees a complete file or none."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from fmnas.comparison.analysis.trials import ReportNotWritten
from fmnas.comparison.figures.palette import css_variables
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
"""Removes dates and versions, so that the same figure gives the same bytes."""
_COLOUR = re.compile(r"\b(fill|stroke)(: |=\")(#[0-9a-f]{6})")
_VIEW_BOX = re.compile(r'<svg\b[^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')


def save_figure(figure: "Figure", folder: Path, name: str) -> tuple[Path, ...]:
    """Write folder/name.png (160 dots per inch), .svg and .pdf (with embedded fonts); returns the paths."""
    fix_layout(figure)
    return tuple(write_bytes(folder / f"{name}.{kind}", _render(figure, name, kind)) for kind in FORMATS)


def inline_svg(figure: "Figure", name: str, description: str, least: float = 0.0) -> str:
    """The figure as an <svg> element for a page.

    Its ids are prefixed with `name`, so that two figures can share the page. It uses the page's colour variables and
    fonts. description: for screen readers. least: the narrowest it gets, as a share of its full width (in CSS pixels
    per point); below that it scrolls.
    """
    fix_layout(figure)
    svg = _render(figure, name, "svg", text_as_text=True).decode()
    svg = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    colours = css_variables()
    svg = _COLOUR.sub(lambda match: f"{match[1]}{match[2]}{colours.get(match[3], match[3])}", svg)
    return _VIEW_BOX.sub(lambda match: _opening_tag(float(match[1]), float(match[2]), description, least), svg, count=1)


def fix_layout(figure: "Figure") -> None:
    """Compute the layout and keep it: drawing the figure again then takes half the time and moves nothing."""
    if (engine := figure.get_layout_engine()) is not None:
        with _drawing_context(""):
            for _ in range(2):  # the first time may change the ticks, and so the width of their labels
                engine.execute(figure)
        figure.set_layout_engine(None)


def write_bytes(path: Path, content: bytes) -> Path:
    """Replace a file atomically, without waiting for the disk (a report can be repeated). Raises ReportNotWritten."""
    try:
        write_aside(path, content, durable=False)
    except OSError as error:
        raise ReportNotWritten(
            f"cannot write {path}: {error}; free disk space or choose a writable folder, and report again"
        ) from error
    return path


def _opening_tag(width: float, height: float, description: str, least: float) -> str:
    style = f"max-width: {1.45 * width:.0f}px" + (f"; min-width: {least * width:.0f}px" if least else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'aria-label="{escape(description)}" viewBox="0 0 {width:g} {height:g}" style="{style}">'
    )


def _render(figure: "Figure", name: str, kind: str, text_as_text: bool = False) -> bytes:
    """The figure in one of FORMATS. text_as_text: whether text in an SVG stays text, and does not become outlines."""
    import matplotlib as mpl
    from matplotlib.backend_bases import get_registered_canvas_class

    content = BytesIO()
    figure.dpi = DPI
    fonts = "none" if text_as_text else "path"
    with _drawing_context(name), mpl.rc_context({"svg.fonttype": fonts, "pdf.fonttype": 42}):
        # `savefig` would draw once more to compute a layout, which is fixed.
        getattr(get_registered_canvas_class(kind)(figure), f"print_{kind}")(content, metadata=_NO_METADATA[kind])
    return content.getvalue()


@contextmanager
def _drawing_context(name: str) -> Iterator[None]:
    """Deterministic ids, small fonts, and no warning about a character that the font lacks: it is drawn as a box."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
