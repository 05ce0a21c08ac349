"""The pieces of a page: section, table, figure, hint. Every text that is not markup is escaped here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fmnas.comparison.numbers.notation import MISSING


@dataclass(frozen=True)
class Picture:
    """A figure as the page holds it.

    svg: an <svg> element. caption: plain text: what it shows, and what it does not prove. wide: it needs the whole
    width; others stand beside one another where there is room.
    """

    svg: str
    caption: str = ""
    wide: bool = False


Pictures = Mapping[str, Sequence[Picture]]
"""The pictures of each section, by the section's id."""


@dataclass(frozen=True)
class Section:
    """A part of the page. id: what links lead to. body: HTML. folded: shown only when the reader opens it."""

    id: str
    title: str
    body: str
    folded: bool = False

    def html(self) -> str:
        """The section with its heading."""
        heading = f"<h2>{escape(self.title)}</h2>"
        if self.folded:
            inner = f"<details><summary>{heading}</summary>\n{self.body}\n</details>"
        else:
            inner = f"{heading}\n{self.body}"
        return f"<section id='{self.id}'>\n{inner}\n</section>"


def joined(*parts: str) -> str:
    """The parts that are not empty, each on its own lines."""
    return "\n".join(part for part in parts if part)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table in a box that scrolls by itself. kind: "text" aligns left, "wide" lets the last column wrap."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    head = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='scroll' tabindex='0'><table class='{kind}'>{head}<tbody>\n{body}\n</tbody></table></div>"


def filled(header: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table without the columns in which no row has a value."""
    kept = [i for i in range(len(header)) if any(row[i] not in ("", MISSING) for row in rows)]
    return table([header[i] for i in kept], [[row[i] for i in kept] for row in rows], kind) if kept else ""


def hint(text: str) -> str:
    """A small remark; nothing for no text."""
    return f"<p class='hint'>{escape(text)}</p>" if text else ""


def warnings(texts: Iterable[str]) -> str:
    """A list of what the reader must know before believing the numbers."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul class='warnings'>{items}</ul>" if items else ""


def subtitle(text: str) -> str:
    """A heading within a section."""
    return f"<h3>{escape(text)}</h3>"


def figures(pictures: Sequence[Picture]) -> str:
    """The pictures of a section: wide ones one below the other, others beside one another where there is room."""
    if not pictures:
        return ""
    kind = "wide" if any(picture.wide for picture in pictures) else "grid"
    return f"<div class='{kind}'>" + "\n".join(map(_figure, pictures)) + "</div>"


def _figure(picture: Picture) -> str:
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    return f"<figure><div class='scroll' tabindex='0'>{picture.svg}</div>{caption}</figure>"
