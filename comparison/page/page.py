"""The page of a report: one self-contained file, for screen, phone and paper. No scripts, nothing fetched.

Every section is a function of the summary and the pictures; it gives None where the summary lacks what it shows.
"""

from collections.abc import Sequence
from html import escape

from fmnas.comparison.page.anatomy_section import cells_section, timeline_section, variables_section
from fmnas.comparison.page.html_parts import Pictures, Section
from fmnas.comparison.page.result_section import checkpoints_section, curves_section, result_section
from fmnas.comparison.page.setup_section import configuration_section, configurations_section, environment_section
from fmnas.comparison.page.spent_section import honesty_section, incidents_section, ledger_section
from fmnas.comparison.page.statistics_section import pairs_section, retrained_section, speed_section
from fmnas.comparison.page.stylesheet import stylesheet
from fmnas.comparison.summary import ReportContext, Summary

SECTIONS = (
    curves_section,
    result_section,
    checkpoints_section,
    pairs_section,
    speed_section,
    retrained_section,
    cells_section,
    variables_section,
    timeline_section,
    ledger_section,
    honesty_section,
    incidents_section,
    configurations_section,
)
"""In the order of the page."""


def page(summary: Summary, context: ReportContext, pictures: Pictures) -> str:
    """The report as an HTML document.

    pictures: of each section; their SVG goes in as it is, every other text is escaped.
    """
    given = [section(summary, pictures) for section in SECTIONS]
    given += [environment_section(context), configuration_section(context)]
    sections = [section for section in given if section is not None]
    body = "\n".join((_top(summary), _contents(sections), *(section.html() for section in sections)))
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n<link rel='icon' href='data:,'>\n"
        f"<title>{escape(summary['name'])}</title>\n<style>{stylesheet()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _top(summary: Summary) -> str:
    budget = summary["budget"]
    paid = f"{budget['evaluations']} evaluations of {budget['epochs_per_evaluation']} epochs per repeat"
    return (
        f"<h1>{escape(summary['name'])}</h1>\n<p class='soft'>{escape(summary['problem'])}, {paid}</p>\n"
        f"<p class='headline'>{escape(summary['headline'])}</p>\n<p class='caution'>{escape(summary['caution'])}</p>"
    )


def _contents(sections: Sequence[Section]) -> str:
    links = "".join(f"<li><a href='#{section.id}'>{escape(section.title)}</a></li>" for section in sections)
    return f"<nav aria-label='contents'><ul>{links}</ul></nav>"
