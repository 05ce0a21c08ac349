import re

from fmnas.comparison.figures.canvas import new_figure
from fmnas.comparison.figures.files import inline_svg, save_figure
from fmnas.comparison.figures.palette import BLUE, INK


def figure(title="$odd_ <&> 名"):
    result = new_figure(3.0, 2.0)
    axes = result.subplots()
    axes.plot([0, 1], [0, 1], color=BLUE)
    axes.set_title(title, color=INK, parse_math=False)
    return result


def test_on_the_page_colours_are_variables_and_text_is_text():
    svg = inline_svg(figure(), "one", "a 'line' <")
    assert "stroke: var(--blue)" in svg
    assert "fill: var(--ink)" in svg
    assert BLUE not in svg
    assert "$odd_ &lt;&amp;&gt; 名" in svg
    for unwanted in ("<style", "<metadata", "DejaVu", "http://purl"):
        assert unwanted not in svg
    assert 'aria-label="a &#x27;line&#x27; &lt;"' in svg
    assert 'viewBox="0 0 216 144"' in svg


def test_two_figures_share_no_ids():
    ids = [set(re.findall(r'\bid="([^"]+)"', inline_svg(figure(), name, name))) for name in ("one", "two")]
    assert not ids[0] & ids[1]
    svg = inline_svg(figure(), "one", "one")
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', svg)
    assert targets
    assert set(targets) <= ids[0]


def test_a_wide_figure_has_a_least_width():
    assert "min-width" not in inline_svg(figure(), "one", "one")
    assert "min-width: 216px" in inline_svg(figure(), "one", "one", least=1.0)


def test_drawing_on_the_page_first_changes_no_file(tmp_path):
    shown = figure("title")
    inline_svg(shown, "one", "one")
    for folder, to_save in (("after", shown), ("alone", figure("title"))):
        save_figure(to_save, tmp_path / folder, "one")
    for kind in ("png", "svg", "pdf"):
        assert (tmp_path / f"after/one.{kind}").read_bytes() == (tmp_path / f"alone/one.{kind}").read_bytes()


def test_a_pdf_embeds_its_fonts(tmp_path):
    *_, pdf = save_figure(figure("title"), tmp_path, "one")
    content = pdf.read_bytes()
    assert b"/Type0" in content
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
