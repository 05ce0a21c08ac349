"""One Ray for all tests of this folder that a process runs: starting one takes longer than most of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from fmnas.platform.workers.cluster import connect


@pytest.fixture(scope="package")
def own_ray() -> Iterator[Any]:
    """A Ray of our own, whatever cluster the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "127.0.0.1:9")  # who gives no --address gets a cluster of his own whatever there is
        connected = connect(None)
    yield connected
    connected.shutdown()


@pytest.fixture(scope="module")
def ray(own_ray: Any, request: pytest.FixtureRequest) -> Any:
    """That Ray; it is sent the classes of the test file, which its workers cannot import."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    return own_ray
