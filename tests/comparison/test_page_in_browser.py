"""The page in a browser: narrow and wide, light and dark. Skipped where there is no Chromium."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.figures import draw_figures
from fmnas.comparison.figures.canvas import Results
from fmnas.comparison.figures.palette import PAGE_COLOURS
from fmnas.comparison.page.page import render_page
from fmnas.comparison.summary import summarise
from fmnas.search_spaces import joint_space

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: the page is not opened"),
    pytest.mark.slow,
]
CONTEXT = ReportContext("a-name-" + 12 * "long", "joint", Budget(6, 25), {"host": 40 * "x"}, "key: " + 300 * "y")
# The page itself has no script: a copy of it carries this one. A window cannot be as narrow as a phone: a frame can.
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">
<script>onmessage = message => { document.title = "PROBE" + JSON.stringify(message.data) + "EBORP"; }</script>
<iframe src="copy.html" width="WIDTH" height="900" style="border: 0"></iframe>"""
PROBE = """<script>
document.querySelectorAll("details").forEach(d => d.open = true);
const box = e => e.getBoundingClientRect(), style = e => getComputedStyle(e);
const figures = [...document.querySelectorAll("figure svg")];
parent.postMessage({
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  figures: figures.length,
  undrawn: figures.filter(f => box(f).width < 200 || box(f).height < 60 || !f.querySelector("text")).length,
  broken: [...document.querySelectorAll("a[href^='#']")].filter(a => !document.querySelector(a.hash)).length,
  small: Math.min(...figures.flatMap(f => [...f.querySelectorAll("text")].map(
    t => parseFloat(style(t).fontSize) * box(f).width / f.viewBox.baseVal.width))),
  ground: style(document.body).backgroundColor,
  ink: style(document.body).color,
  inks: [...new Set([...document.querySelectorAll("figure svg text")].map(t => style(t).fill))],
}, "*");
</script>"""


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.fixture(scope="module")
def html(make_table, with_statistics):
    """A page with every section and every figure."""
    space, rng = joint_space(), np.random.default_rng(0)
    trials = make_table(
        {
            (name, r): [
                {"objective": float(rng.uniform(0.1, 0.9)), "error": 0.1, **space.sample(rng)} for _ in range(6)
            ]
            for name in ("bo-fm", "an-optimizer-with-a-long-name", "bohb")
            for r in range(3)
        }
    ).drop(columns="x")
    curves = anytime_curves(trials, CONTEXT.budget)
    summary = summarise(trials, curves, ledger_table(trials, CONTEXT.budget), CONTEXT)
    full = with_statistics(summary)
    return render_page(full, CONTEXT, draw_figures(Results(trials, curves, full)))


def open_in_browser(html, folder, width, dark):
    """The measurements of the probe, and the messages of the browser's console."""
    (folder / "copy.html").write_text(html.replace("</body>", PROBE + "</body>"))
    (folder / "frame.html").write_text(FRAME.replace("WIDTH", str(width)))
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]
    command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1400,900"]
    command += [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=10000"]
    command += [(folder / "frame.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    probe = re.search("<title>PROBE(.*?)EBORP</title>", done.stdout)
    assert probe
    return json.loads(probe[1]), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize(("width", "dark"), [(360, False), (360, True), (1280, False), (1280, True)])
def test_the_page_can_be_read(html, tmp_path, width, dark):
    measured, messages = open_in_browser(html, tmp_path, width, dark)
    assert messages == []
    assert measured["width"] == width
    assert measured["page"] <= width
    assert measured["figures"] == len(re.findall(r"<figure>", html))
    assert measured["figures"] >= 11
    assert measured["undrawn"] == 0
    assert measured["broken"] == 0
    assert measured["small"] >= 8.5
    assert measured["ground"] == rgb(PAGE_COLOURS["ground"][dark])
    assert measured["ink"] == rgb(PAGE_COLOURS["ink"][dark])
    assert rgb(PAGE_COLOURS["ink"][dark]) in measured["inks"]
    assert rgb(PAGE_COLOURS["ink"][not dark]) not in measured["inks"]
