"""The style of the page: light, dark and paper; from a phone's width up. Colours are those of `palette`."""

from fmnas.comparison.figures.palette import declarations

_RULES = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { max-width: 48rem; }
a { color: var(--link); }
.soft, .hint { color: var(--soft); margin: .3rem 0 0; }
.hint { font-size: .875rem; }
.headline { font-size: 1.25rem; line-height: 1.4; margin: 1.2rem 0 .6rem; }
.caution, .warnings { margin: 0 0 .8rem; padding: .6rem .9rem; border-left: 4px solid var(--warn);
  background: var(--card); max-width: 48rem; }
.warnings { padding-left: 1.8rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; margin: 1.2rem 0 0; padding: .6rem 0;
  border-block: 1px solid var(--line); font-size: .9rem; }
nav a { display: inline-block; padding: .25rem 0; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: .4rem 0 .2rem; font-size: .9rem; max-width: none; }
.legend span { display: inline-flex; align-items: center; gap: .5rem; }
.legend svg { width: 2.6rem; height: .9rem; flex: none; }
.scroll { overflow-x: auto; max-width: 100%; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem 1rem .35rem 0; text-align: right; white-space: nowrap; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; overflow-wrap: normal; }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
.text td:last-child, .wide td:last-child { white-space: normal; min-width: 13rem; text-align: left; }
.wide th:last-child { text-align: left; }
@media (max-width: 40rem) { th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground);
  max-width: 9.5rem; white-space: normal; overflow-wrap: break-word; }
  .text th:first-child, .text td:first-child { position: static; } }
figure { margin: .6rem 0 0; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { color: var(--soft); font-size: .875rem; margin-top: .3rem; max-width: 48rem; }
div.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: .6rem 1.2rem;
  align-items: start; }
div.cells figure + figure { max-width: 24rem; }
div.cells { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); gap: 0 1rem; align-items: center; }
@media (max-width: 48rem) { div.cells { grid-template-columns: minmax(0, 1fr); } }
pre { overflow-x: auto; padding: .8rem; background: var(--card); font-size: .82rem; line-height: 1.45; }
summary { cursor: pointer; margin-top: 2.4rem; }
summary h2 { display: inline; }
@media print { body { max-width: none; padding: 0; font-size: 11px; } nav { display: none; }
  figure svg { min-width: 0 !important; } .scroll { overflow: visible; }
  table { font-size: 9px; } th, td { padding-right: .6rem; overflow-wrap: normal; }
  .text td { white-space: normal; } .text td:last-child, .wide td:last-child { min-width: 9rem; }
  figure, tr, h2, h3 { break-inside: avoid; }
  h2, h3 { break-after: avoid; } }
"""


def stylesheet() -> str:
    """The content of the page's <style> element. Paper is always light."""
    light = f":root {{ color-scheme: light dark; {declarations(dark=False)} }}"
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {declarations(dark=True)} }} }}"
    return f"\n{light}\n{dark}{_RULES}"
