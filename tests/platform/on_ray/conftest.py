"""One Ray for all tests of this folder that a process runs: starting one takes longer than most of them."""

from typing import Any

import pytest

from fmnas.platform.workers.cluster import connect

_connected: list[Any] = []
"""That Ray, from the first test that asks for it to the last one of this folder: then others may begin one."""


@pytest.fixture(scope="module")
def ray(request: pytest.FixtureRequest) -> Any:
    """A Ray of our own; it is sent the classes of the test file, which its workers cannot import."""
    if not _connected:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", "127.0.0.1:9")  # who gives no --address gets one of his own whatever there is
            _connected.append(connect(None))
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    return _connected[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Neither a module nor, without an __init__.py, a package's scope ends where this folder does."""
    if _connected and (nextitem is None or nextitem.path.parent != item.path.parent):
        _connected.pop().shutdown()
