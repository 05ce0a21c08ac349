"""What the search found and how it went: the best cells, the variables, the workers' time."""

from html import escape

from fmnas.comparison.numbers.notation import number
from fmnas.comparison.page.html_parts import Pictures, Section, figures, joined, subtitle
from fmnas.comparison.summary import Summary


def cells_section(summary: Summary, pictures: Pictures) -> Section | None:
    """Each optimizer's best cell as a graph, its learning rate beside it; None for a space without a cell."""
    parts = []
    for name, row in summary["optimizers"].items():
        shown = pictures.get(f"cell:{name}")
        if shown:
            found = f"{row['best_run']}, trial {row['best_trial']}: objective {number(row['best'])}"
            found += "" if row["best_error"] is None else f", validation error {number(row['best_error'])}"
            drawn = figures(shown).replace("<div class='wide'>", "<div class='cells'>", 1)
            parts += [subtitle(name), f"<p class='soft'>{escape(found)}</p>", drawn]
    title = "Best cell" if len(summary["optimizers"]) == 1 else "Best cell of each optimizer"
    return Section("cells", title, joined(*parts)) if parts else None


def variables_section(_: Summary, pictures: Pictures) -> Section | None:
    """Which variables go with the objective; None with too few full evaluations to tell."""
    shown = figures(pictures.get("variables", ())), figures(pictures.get("variables_lines", ()))
    return Section("variables", "Variables", joined(*shown)) if any(shown) else None


def timeline_section(_: Summary, pictures: Pictures) -> Section | None:
    """Which worker worked when, for whom; None where no trial tells."""
    return Section("timeline", "Who worked when", figures(pictures["timeline"])) if "timeline" in pictures else None
