"""A GPU that fails: what is lost, and what is the trial's own. The GPU is a stub; tensors lie on the CPU."""

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
from fmnas.trainers.allocator import release_gpu_cache
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import devices, image_trainer
from fmnas.trainers.images.cuda_graph import CaptureError, captured
from fmnas.trainers.images.devices import exactly, usable_device
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer, TrainingSettings
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.problem import train_a_little
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
GPU, CPU, GIB = torch.device("cuda", 1), torch.device("cpu"), 2**30
ILLEGAL = "CUDA error: an illegal memory access was encountered"
SETTINGS = TrainingSettings(seeds=2, batch_size=8, arrangement="stacked", device="cuda:1")


class StubGpu:
    """As much of torch.cuda as the trainers use.

    sticky: the error that every call raises from now on. poisoned: whether the allocator believes that a recording is
    under way. end_fails: whether the end of a recording raises, as after a step that it forbids. taken: bytes that
    other processes hold. index, stream: what is current. recording: whether a step is recorded now.
    """

    def __init__(self) -> None:
        self.sticky = ""
        self.poisoned = self.end_fails = self.recording = False
        self.taken, self.own, self.total = 0, 10 * GIB, 16 * GIB
        self.index, self.stream = 0, "default"
        self.emptied = self.graphs = 0

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
    def device(self, device: torch.device) -> Iterator[None]:
        before, self.index = self.index, device.index or 0
        try:
            yield
        finally:
            self.index = before

    @contextmanager
    def use(self, stream: Any) -> Iterator[None]:
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    def set_stream(self, stream: Any) -> None:
        self.stream = stream

    @contextmanager
    def graph(self, graph: Any) -> Iterator[None]:
        """As torch's: where a recording cannot be ended, its stream stays the current one."""
        assert self.index == 1, "recorded on another GPU"
        before, self.stream, self.recording, failed = self.stream, "recording", True, False
        try:
            yield
        except BaseException:
            failed = True
            raise
        finally:
            self.recording = False
            if self.end_fails and (failed or not graph.good):
                self.poisoned = True
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
            self.stream = before


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StubGpu:
    """torch.cuda is a stub, and the trainers' tensors stay on the CPU."""
    stub = StubGpu()

    class Stream:
        def wait_stream(self, other: object) -> None:
            stub.answer()

    class Graph:
        good = True

        def __init__(self) -> None:
            stub.graphs += 1

        def replay(self) -> None:
            raise AssertionError("the stub's graphs hold nothing")

    stub.stream = Stream()
    for name, stand_in in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "current_stream": lambda: stub.stream,
        "set_stream": stub.set_stream,
        "stream": stub.use,
        "graph": stub.graph,
        "device": stub.device,
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
    return stub


@pytest.fixture
def graphs_hold_their_step(gpu: StubGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is replayed by doing it again."""

    def capture(learner: StackedLearner) -> None:
        gpu.answer()

    monkeypatch.setattr(StackedLearner, "capture", capture)


def test_a_step_that_cannot_be_recorded_loses_the_device_and_is_not_trained_another_way(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(learner: StackedLearner, count: int) -> None:
        if gpu.recording:
            raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(StackedLearner, "step", step)
    monkeypatch.setattr(image_trainer, "plain_learner", None)
    trainer, before = ImageTrainer(noise_split, SETTINGS), gpu.stream
    gpu.end_fails = True
    with pytest.raises(DeviceFailedError, match=r"could not be captured as a CUDA graph: .*previous error"):
        trainer.evaluate(make_trial())
    assert gpu.stream is before
    assert gpu.index == 0
    assert gpu.poisoned
    with pytest.raises(DeviceFailedError, match="cuda:1 cannot be used by this process any more: captures_underway"):
        trainer.evaluate(make_trial())
    assert gpu.graphs == 1, "a process whose recording failed is asked for no second one"


@pytest.mark.parametrize("end_fails", [False, True])
def test_memory_that_runs_out_while_recording_is_told_as_that(gpu: StubGpu, end_fails: bool) -> None:
    gpu.end_fails, before = end_fails, gpu.stream
    run_out = torch.OutOfMemoryError("CUDA out of memory")

    def step() -> None:
        raise run_out

    with torch.cuda.device(GPU), pytest.raises(torch.OutOfMemoryError) as caught:
        captured(step, lambda: None, [])
    assert caught.value is run_out
    assert gpu.stream is before


class BrokenOff(BaseException):
    """As the platform's, at a deadline."""


@pytest.mark.parametrize("end_fails", [False, True])
def test_what_breaks_a_recording_off_is_not_hidden_by_an_end_that_fails(gpu: StubGpu, end_fails: bool) -> None:
    gpu.end_fails, before = end_fails, gpu.stream

    def step() -> None:
        raise BrokenOff

    with torch.cuda.device(GPU), pytest.raises(BrokenOff):
        captured(step, lambda: None, [])
    assert gpu.stream is before


def breaks(error: BaseException, gpu: StubGpu, sticky: str = "") -> Callable[..., None]:
    def train_epoch(*_: object) -> None:
        gpu.sticky = sticky
        raise error

    return train_epoch


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_an_error_that_stays_is_the_devices_and_no_later_trial_is_tried(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = ImageTrainer(noise_split, SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(StackedLearner, "train_epoch", breaks(RuntimeError(ILLEGAL), gpu, sticky=ILLEGAL))
        with pytest.raises(DeviceFailedError, match=rf"cuda:1 does not answer any more: {ILLEGAL} \(training 0 1 of"):
            trainer.evaluate(make_trial())
    with pytest.raises(DeviceFailedError, match="cannot be used by this process any more"):
        trainer.evaluate(make_trial())


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_an_error_after_which_the_device_answers_is_the_trials(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = ImageTrainer(noise_split, SETTINGS)
    healthy = trainer.evaluate(make_trial())
    with monkeypatch.context() as patch:
        patch.setattr(StackedLearner, "train_epoch", breaks(RuntimeError("size mismatch"), gpu))
        with pytest.raises(TrainingFailedError, match=r"training 0 1 of .* failed: RuntimeError: size mismatch"):
            trainer.evaluate(make_trial())
    assert replace(trainer.evaluate(make_trial()), seconds=0.0) == replace(healthy, seconds=0.0)


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
]


@pytest.mark.usefixtures("graphs_hold_their_step")
@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_memory_that_ran_out_is_the_neighbours_fault_where_there_are_any(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Up to a gibibyte beside the tensors is this process's own."""
    trainer = ImageTrainer(noise_split, SETTINGS)
    monkeypatch.setattr(StackedLearner, "train_epoch", breaks(error, gpu))
    gpu.taken = GIB
    with pytest.raises(TrainingFailedError, match=type(error).__name__):
        trainer.evaluate(make_trial())
    gpu.taken = 5 * GIB
    words = r"other processes hold 4\.0 of its 16\.0 GiB: let fewer workers share it \(a larger workers\.gpus\) \(train"
    with pytest.raises(DeviceFailedError, match=words):
        trainer.evaluate(make_trial())


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_neighbours_are_not_blamed_for_what_is_no_matter_of_a_gpus_memory(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, gpu.taken = ImageTrainer(noise_split, SETTINGS), 5 * GIB
    for error in (RuntimeError("size mismatch"), MemoryError("of the host")):
        monkeypatch.setattr(StackedLearner, "train_epoch", breaks(error, gpu))
        with pytest.raises(TrainingFailedError, match=type(error).__name__):
            trainer.evaluate(make_trial())


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_a_result_that_was_made_is_kept_whatever_the_device_does_then(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = ImageTrainer(noise_split, SETTINGS, clock=lambda: 0.0)
    healthy = trainer.evaluate(make_trial())
    assert gpu.emptied == 2

    def at_the_end(number: int, epoch: int, error: float) -> None:
        gpu.poisoned = epoch == 2

    assert trainer.evaluate(make_trial(), at_the_end) == healthy
    (record,) = caplog.records
    assert "captures_underway" in record.getMessage()
    with pytest.raises(DeviceFailedError, match="cannot be used by this process any more: captures_underway"):
        trainer.evaluate(make_trial())


@pytest.mark.usefixtures("graphs_hold_their_step")
@pytest.mark.parametrize("sticky", ["", ILLEGAL])
def test_checkpoints_stay_for_whoever_repeats_what_a_device_broke(
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


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_a_retraining_loses_its_device_too(
    gpu: StubGpu, noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = noise_split
    parts = (split.train_inputs, split.train_labels, split.held_out_inputs, split.held_out_labels)
    trainer = FinalTrainer(Split(*parts, "noise", "a test", for_tests=True), SETTINGS)
    monkeypatch.setattr(StackedLearner, "train_epoch", breaks(RuntimeError(ILLEGAL), gpu, sticky=ILLEGAL))
    with pytest.raises(DeviceFailedError, match="does not answer any more"):
        trainer.evaluate(make_trial())


def test_the_device_of_a_block_is_the_current_one_whatever_its_index(gpu: StubGpu) -> None:
    with exactly(GPU):
        assert gpu.index == 1
    assert gpu.index == 0


def test_a_cpu_needs_none_of_it() -> None:
    release_gpu_cache()
    with exactly(usable_device("cpu")):
        pass


def test_the_errors_travel_between_processes() -> None:
    for error in (DeviceFailedError("it is gone"), CaptureError("no graph")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert isinstance(again, DeviceFailedError)


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_an_evaluation_says_how_it_was_trained_and_on_what(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices.torch.backends.cudnn, "version", lambda: 91002)
    torch_version = str(torch.__version__)
    for arrangement, captured_or_not in (("stacked", True), ("plain", False)):
        settings = replace(SETTINGS, arrangement=arrangement)
        evaluation = ImageTrainer(noise_split, settings).evaluate(make_trial())
        assert evaluation.conditions == Conditions(arrangement, captured_or_not, "Stub 3000", torch_version, 91002)
    settings = replace(SETTINGS, device="cpu", arrangement="fast")
    evaluation = ImageTrainer(noise_split, settings).evaluate(make_trial())
    assert evaluation.conditions == Conditions("fast", False, "cpu", torch_version)
    assert Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation


@pytest.mark.usefixtures("graphs_hold_their_step")
def test_a_gpu_is_tried_as_it_is_trained_on(gpu: StubGpu) -> None:
    how = train_a_little("cuda:1")
    assert how is not None
    assert (how.way, how.device) == ("stacked (captured)", "Stub 3000")
    gpu.sticky = ILLEGAL
    with pytest.raises(DeviceFailedError, match="cannot be used by this process"):
        train_a_little("cuda:1")
