"""What tests of the API share."""

from collections.abc import Iterator

import pytest

from fmnas.comparison.figures import files


@pytest.fixture(scope="module", autouse=True)
def _figures_as_svg() -> Iterator[None]:
    """Reports have their figures as SVG alone: fonts for PDF take a third of the time, and no test here looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "FORMATS", ("svg",))
        yield
