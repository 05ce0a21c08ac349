"""One local Ray for all tests of this folder: starting one takes longer than most of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from fmnas.platform.workers.cluster import connect
from fmnas.platform.workers.progress_actor import ProgressBoard
from fmnas.platform.workers.ray_worker import NODE, PLACE, VERSIONS, versions

_connected: list[Any] = []
"""That Ray, from the first test that needs it to the last one of this folder."""


@pytest.fixture(scope="module")
def ray(request: pytest.FixtureRequest) -> Any:
    """A local Ray; classes of the test file, which its workers cannot import, are pickled by value."""
    if not _connected:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", "127.0.0.1:9")  # without --address, Ray is local whatever this says
            _connected.append(connect(None))
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    return _connected[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Neither a module's nor, without an __init__.py, a package's scope ends where this folder does."""
    if _connected and (nextitem is None or nextitem.path.parent != item.path.parent):
        _connected.pop().shutdown()


class FakeRay:
    """As much of Ray as the pool uses.

    done: the methods that have answered. answers: what each returns, or raises. cpus: of each node.
    made, killed: actors, without the one for progress.
    """

    def __init__(self, **answers: Any) -> None:
        from ray import exceptions

        self.exceptions = exceptions
        self.answers = {"ready": {VERSIONS: versions(), PLACE: "host:1", NODE: "a"}, "read": {}, **answers}
        self.done = {"ready", "evaluate", "read"}
        self.cpus = {"a": 1.0}
        self.killed: list[int] = []
        self.names: list[str] = []
        self.made = 0
        self.asked: list[Any] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": name, "Resources": {"CPU": cpus}, "Alive": True} for name, cpus in self.cpus.items()]

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "ab" * 28, namespace="fmnas-test")

    def remote(self, kind: Any) -> Any:
        def make(*arguments: Any) -> Any:
            if kind is ProgressBoard:
                return SimpleNamespace(number=0, read=SimpleNamespace(remote=self._read))
            self.made += 1
            number = self.made
            methods = {
                name: SimpleNamespace(remote=lambda *_, name=name: (name, number)) for name in ("ready", "evaluate")
            }
            return SimpleNamespace(number=number, **methods)

        def options(name: str = "", **_: Any) -> Any:
            if name:
                self.names.append(name)
            return SimpleNamespace(remote=make)

        return SimpleNamespace(options=options)

    def _read(self, jobs: list[int]) -> tuple[str, int]:
        self.asked.append(jobs)
        return "read", 0

    def wait(self, futures: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        done = [future for future in futures if future[0] in self.done]
        return done[:1], futures

    def get(self, future: Any) -> Any:
        answer = self.answers[future[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put(self, data: Any) -> Any:
        return data

    def shutdown(self) -> None:
        pass

    def kill(self, actor: Any, no_restart: bool = True) -> None:
        if actor.number:
            self.killed.append(actor.number)


@pytest.fixture
def fake_ray() -> type[FakeRay]:
    """fake_ray(**answers)."""
    return FakeRay
