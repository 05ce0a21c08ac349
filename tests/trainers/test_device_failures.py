"""Failures of a GPU, its precision, and conditions of an evaluation. The GPU is a stub; tensors are on the CPU."""

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fmnas.search_spaces import Conditions, Evaluation, Trial
from fmnas.trainers import DeviceFailedError, TrainingFailedError
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import cuda_graph, devices, image_trainer
from fmnas.trainers.images.cuda_graph import CaptureError, capture_graph
from fmnas.trainers.images.devices import deterministic_float32, usable_device
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.problem import smoke_test_device
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.memory import release_gpu_cache
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
GPU, CPU, GIB = torch.device("cuda", 1), torch.device("cpu"), 2**30
ILLEGAL = "CUDA error: an illegal memory access was encountered"
SETTINGS = TrainingSettings(seeds=2, batch_size=8, arrangement="stacked", device="cuda:1")


class StubGpu:
    """The part of torch.cuda that the trainers use.

    sticky: the error that every call raises. poisoned: whether the allocator believes that a capture is running.
    end_fails: whether the end of a capture raises, as after a forbidden step. taken: bytes used by other processes.
    index, stream: the current ones. recording: whether a step is being captured.
    """

    def __init__(self) -> None:
        self.sticky = ""
        self.poisoned = self.end_fails = self.recording = False
        self.taken, self.own, self.total = 0, 10 * GIB, 16 * GIB
        self.index, self.stream = 0, "default"
        self.emptied = self.graphs = self.streams = 0

    def answer(self, *_: object) -> None:
        if self.sticky:
            raise RuntimeError(self.sticky)

    def empty_cache(self) -> None:
        self.answer()
        if self.poisoned:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")
        self.emptied += 1

    def mem_get_info(self, device: object) -> tuple[int, int]:
        self.answer()
        return max(0, self.total - self.own - self.taken), self.total

    @contextmanager
    def using(self, **values: Any) -> Iterator[None]:
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)

    @contextmanager
    def graph(self, graph: Any, stream: Any) -> Iterator[None]:
        """As in torch, the stream of a capture that cannot be ended stays the current one."""
        assert self.index == 1, "captured on a different GPU"
        before, self.stream, self.recording = self.stream, stream, True
        try:
            yield
            self.stream = before
        except BaseException:
            if self.end_fails:
                self.poisoned = True
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")  # noqa: B904
            self.stream = before
            raise
        finally:
            self.recording = False


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubGpu]:
    """Replaces torch.cuda by a stub; the trainers' tensors stay on the CPU."""
    cuda_graph._side_stream.cache_clear()
    stub = StubGpu()

    class Stream:
        def __init__(self, device: int = 0) -> None:
            stub.streams += 1

        def wait_stream(self, other: object) -> None:
            stub.answer()

    class Graph:
        def __init__(self) -> None:
            stub.graphs += 1

        def replay(self) -> None: ...

    stub.stream = Stream()
    for name, stand_in in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "current_device": lambda: stub.index,
        "current_stream": lambda: stub.stream,
        "set_stream": lambda stream: setattr(stub, "stream", stream),
        "stream": lambda stream: stub.using(stream=stream),
        "graph": stub.graph,
        "device": lambda device: stub.using(index=device.index or 0),
        "synchronize": stub.answer,
        "empty_cache": stub.empty_cache,
        "mem_get_info": stub.mem_get_info,
        "memory_reserved": lambda device: stub.own,
        "get_device_name": lambda device: "Stub 3000",
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    real_to_device, real_stack = image_trainer.to_device, image_trainer.Stack
    monkeypatch.setattr(image_trainer, "usable_device", torch.device)
    monkeypatch.setattr(image_trainer, "to_device", lambda split, _: real_to_device(split, CPU))
    monkeypatch.setattr(image_trainer, "Stack", lambda networks, cell, _: real_stack(networks, cell, CPU))
    yield stub
    cuda_graph._side_stream.cache_clear()


@pytest.fixture
def trainer(gpu: StubGpu, noise_split: Split, monkeypatch: pytest.MonkeyPatch) -> ImageTrainer:
    """On the stub; its steps are not captured."""
    monkeypatch.setattr(StackedLearner, "capture", lambda learner: gpu.answer())
    return ImageTrainer(noise_split, SETTINGS, clock=lambda: 0.0)


def test_all_captures_and_their_warm_ups_share_a_stream(gpu: StubGpu) -> None:
    before, used = gpu.streams, list[Any]()
    gpu.index = 1
    for _ in range(2):
        capture_graph(lambda: used.append(gpu.stream), lambda: used.append(gpu.stream), [])
    assert gpu.streams == before + 1
    assert len(used) == 2 * (cuda_graph.WARM_UP + 1)
    assert len({id(stream) for stream in used}) == 1


def test_the_host_waits_for_the_oldest_step_once_it_is_too_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, waited = list[Any](), list[int]()

    class Event:
        def __init__(self, blocking: bool) -> None:
            assert blocking, "the host sleeps"

        def record(self) -> None:
            steps.append(self)

        def synchronize(self) -> None:
            waited.append(steps.index(self))

    monkeypatch.setattr(torch.cuda, "Event", Event)
    limiter, ahead = cuda_graph.StepLimiter(GPU), cuda_graph.STEPS_AHEAD
    for step in range(ahead + 3):
        limiter.step()
        assert waited == list(range(step + 1 - ahead))


def test_a_step_that_cannot_be_captured_loses_the_device_without_a_fallback(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(learner: StackedLearner, count: int) -> None:
        if gpu.recording:
            raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(StackedLearner, "step", step)
    monkeypatch.setattr(image_trainer, "plain_learner", None)
    trainer, before = ImageTrainer(noise_split, SETTINGS), gpu.stream
    gpu.end_fails = True
    with pytest.raises(DeviceFailedError, match=r"CUDA graph: .*previous error"):
        trainer.evaluate(make_trial())
    assert gpu.stream is before
    assert gpu.index == 0
    assert gpu.poisoned
    with pytest.raises(DeviceFailedError, match=r"cuda:1 .*captures_underway"):
        trainer.evaluate(make_trial())
    assert gpu.graphs == 1, "a process whose capture failed does not try again"


class BrokenOff(BaseException):
    """Like the platform's exception at a deadline."""


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), BrokenOff()])
@pytest.mark.parametrize("end_fails", [False, True])
def test_the_cause_of_a_broken_capture_is_not_hidden(gpu: StubGpu, end_fails: bool, error: BaseException) -> None:
    gpu.end_fails, before = end_fails, gpu.stream

    def step() -> None:
        raise error

    with torch.cuda.device(GPU), pytest.raises(type(error)) as caught:
        capture_graph(step, lambda: None, [])
    assert caught.value is error
    assert gpu.stream is before


def fail_with(error: BaseException, gpu: StubGpu, sticky: str = "") -> Callable[..., None]:
    def train_epoch(*_: object) -> None:
        gpu.sticky = sticky
        raise error

    return train_epoch


@pytest.mark.parametrize("final", [False, True])
def test_an_error_that_stays_is_the_devices_and_ends_later_trials(
    gpu: StubGpu,
    trainer: ImageTrainer,
    noise_split: Split,
    make_trial: MakeTrial,
    monkeypatch: pytest.MonkeyPatch,
    final: bool,
) -> None:
    if final:
        trainer = FinalTrainer(replace(noise_split, for_tests=True), SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(StackedLearner, "train_epoch", fail_with(RuntimeError(ILLEGAL), gpu, sticky=ILLEGAL))
        with pytest.raises(DeviceFailedError, match=rf"cuda:1 .*{ILLEGAL} \(training 0 1 of"):
            trainer.evaluate(make_trial())
    with pytest.raises(DeviceFailedError, match="cuda:1"):
        trainer.evaluate(make_trial())


def test_an_error_after_which_the_device_responds_is_the_trials(
    gpu: StubGpu, trainer: ImageTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if other processes use the memory, which this error does not concern."""
    healthy, gpu.taken = trainer.evaluate(make_trial()), 5 * GIB
    with monkeypatch.context() as patch:
        for error in (RuntimeError("size mismatch"), MemoryError("of the host")):
            patch.setattr(StackedLearner, "train_epoch", fail_with(error, gpu))
            with pytest.raises(TrainingFailedError, match=rf"training 0 1 of .*{type(error).__name__}: {error}"):
                trainer.evaluate(make_trial())
    assert trainer.evaluate(make_trial()) == healthy


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_out_of_memory_is_a_device_failure_if_other_processes_use_some(
    gpu: StubGpu, trainer: ImageTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Up to a gibibyte beside the tensors is this process's own."""
    monkeypatch.setattr(StackedLearner, "train_epoch", fail_with(error, gpu))
    gpu.taken = GIB
    with pytest.raises(TrainingFailedError, match=type(error).__name__):
        trainer.evaluate(make_trial())
    gpu.taken = 5 * GIB
    with pytest.raises(DeviceFailedError, match=r"4\.0 of its 16\.0 GiB: .*workers\.gpus\) \(train"):
        trainer.evaluate(make_trial())


def test_a_result_is_kept_if_the_device_fails_after_it(
    gpu: StubGpu, trainer: ImageTrainer, make_trial: MakeTrial, caplog: pytest.LogCaptureFixture
) -> None:
    healthy = trainer.evaluate(make_trial())
    assert gpu.emptied == 2

    def poison(number: int, epoch: int, error: float) -> None:
        gpu.poisoned = epoch == 2

    assert trainer.evaluate(make_trial(), poison) == healthy
    (record,) = caplog.records
    assert "captures_underway" in record.getMessage()
    with pytest.raises(DeviceFailedError, match="captures_underway"):
        trainer.evaluate(make_trial())


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize("sticky", ["", ILLEGAL])
def test_checkpoints_are_kept_for_a_retry_after_a_device_failure(
    gpu: StubGpu,
    noise_split: Split,
    make_trial: MakeTrial,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sticky: str,
) -> None:
    trainer = ImageTrainer(noise_split, SETTINGS, checkpoints=Checkpoints(tmp_path, every=1))
    real, rates = StackedLearner.train_epoch, []

    def train_epoch(learner: StackedLearner, rate: float) -> None:
        rates.append(rate)
        if len(rates) > 1:
            gpu.sticky = sticky
            raise RuntimeError(ILLEGAL)
        real(learner, rate)

    monkeypatch.setattr(StackedLearner, "train_epoch", train_epoch)
    with pytest.raises(DeviceFailedError if sticky else TrainingFailedError):
        trainer.evaluate(make_trial())
    assert any(tmp_path.iterdir()) == bool(sticky)


def test_the_errors_can_be_pickled() -> None:
    release_gpu_cache()
    with deterministic_float32(usable_device("cpu")):  # which does nothing
        pass
    for error in (DeviceFailedError("it is gone"), CaptureError("no graph")):
        loaded = pickle.loads(pickle.dumps(error))
        assert (type(loaded), str(loaded)) == (type(error), str(error))
        assert isinstance(loaded, DeviceFailedError)


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("stacked", True, "Stub 3000", str(torch.__version__), 91002)),
        ({"arrangement": "plain"}, ("plain", False, "Stub 3000", str(torch.__version__), 91002)),
        ({"arrangement": "fast", "device": "cpu"}, ("fast", False, "cpu", str(torch.__version__))),
    ],
)
def test_an_evaluation_records_how_and_where_it_was_trained(
    noise_split: Split,
    make_trial: MakeTrial,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    expected: tuple[Any, ...],
) -> None:
    monkeypatch.setattr(devices.torch.backends.cudnn, "version", lambda: 91002)
    evaluation = ImageTrainer(noise_split, replace(SETTINGS, **settings)).evaluate(make_trial())
    assert evaluation.conditions == Conditions(*expected)
    assert Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation


@pytest.mark.usefixtures("trainer")
def test_the_smoke_test_trains_as_a_trial_does(gpu: StubGpu) -> None:
    conditions = smoke_test_device("cuda:1")
    assert conditions is not None
    assert (conditions.label, conditions.device) == ("stacked (captured)", "Stub 3000")
    gpu.sticky = ILLEGAL
    with pytest.raises(DeviceFailedError, match="cuda:1"):
        smoke_test_device("cuda:1")


def flags() -> dict[str, object]:
    cudnn = torch.backends.cudnn
    parts = {"conv": cudnn.conv, "matmul": torch.backends.cuda.matmul}
    values = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
    return {**values, **{name: part.fp32_precision for name, part in parts.items()}}


@pytest.mark.parametrize("precision", ["none", "tf32"])
def test_a_gpu_computes_in_float32_and_the_process_settings_are_restored(
    gpu: StubGpu, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends, "fp32_precision", precision)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = flags()
    with deterministic_float32(GPU):
        assert gpu.index == 1
        exact = {"enabled": True, "benchmark": False, "deterministic": True, "conv": "ieee", "matmul": "ieee"}
        assert flags() == exact
    assert gpu.index == 0
    assert flags() == before
