"""Times on a GPU: steps, kernels, convolutions, evaluations, several processes at once.

Part of `gpu_first_run.py`. Times of operations are those of replays of a CUDA graph: what the device takes for them.
"""

import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_subjects import (
    Jobs,
    Plan,
    begin_epoch,
    cells_of_each,
    learner_of,
    median_seconds,
    named_cells,
    replayed_seconds,
    some,
    wait,
)
from torch.autograd import DeviceType
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from training_gpu import BATCH, EPOCHS, IMAGES, noise, share, trial
from training_gpu import Plan as Sharing

from fmnas.search_spaces import Cell
from fmnas.trainers import EvaluationStoppedError
from fmnas.trainers.images.devices import Flag, deterministic_float32, temporary_attributes
from fmnas.trainers.images.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.images.network import CELL_CHANNELS, SEPARABLE_GROUPS

SIDES = (28, 15, 8)
"""Of the images in the three cells."""

KINDS = {"conv1x1": (1, 1), "conv3x3": (3, 1), "conv5x5": (5, 1)}
KINDS |= {"sepconv3x3": (3, SEPARABLE_GROUPS), "sepconv5x5": (5, SEPARABLE_GROUPS)}
"""Size and groups of each operation that is a convolution."""

SETTINGS = {
    "as trained": (True, False, False),
    "searched, deterministic": (True, True, False),
    "searched": (False, True, False),
    "searched, TF32": (False, True, True),
}
"""Whether cuDNN is to be deterministic, to try its kernels and take the fastest, and to use TF32."""

TOP = 15


def machine(plan: Plan) -> Jobs:
    """Jobs: versions, device, and its best rates."""
    return {"versions": versions, "device": partial(device_facts, plan), "rates": partial(rates, plan)}


def versions() -> dict[str, Any]:
    """Return the versions and settings that affect numbers and times."""
    here = Path(__file__).resolve().parent
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    )
    names = ("CUDA", "CUDNN", "NVIDIA_TF32", "TORCH_ALLOW", "PYTORCH", "OMP_NUM")
    return {
        "commit": asked.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "environment": {name: value for name, value in os.environ.items() if name.startswith(names)},
    }


def device_facts(plan: Plan) -> dict[str, Any]:
    """Return its name and size, and whether MPS is available."""
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    result: dict[str, Any] = {"mps": shutil.which("nvidia-cuda-mps-control") or "none", "mps_pipes": pipes.exists()}
    if torch.device(plan.device).type != "cuda":
        return {"name": plan.device, **result}
    facts = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    result |= {"taken_gb": (total - free) / 1e9, "gb": total / 1e9, "multiprocessors": facts.multi_processor_count}
    return {"name": facts.name, "capability": f"{facts.major}.{facts.minor}", **result}


def rates(plan: Plan) -> dict[str, Any]:
    """Copied bytes, and float32 operations of a large product, per second."""
    device = torch.device(plan.device)
    large = device.type == "cuda"
    numbers = torch.randn(2**27 if large else 2**18, device=device)
    matrix = torch.randn(*[8192 if large else 256] * 2, device=device)
    target, product = torch.empty_like(numbers), torch.empty_like(matrix)
    with deterministic_float32(device):
        copying = replayed_seconds(lambda: target.copy_(numbers), plan)
        multiplying = replayed_seconds(lambda: torch.mm(matrix, matrix, out=product), plan)
    return {
        "copied_tb_s": 2 * numbers.nbytes / copying / 1e12,
        "float32_tflop_s": 2 * len(matrix) ** 3 / multiplying / 1e12,
    }


def steps(plan: Plan) -> Jobs:
    """Times and the dearest kernels of each cell's step."""
    jobs: Jobs = {}
    for name, cell in some(named_cells(), plan).items():
        jobs[name] = partial(step_times, cell, plan)
        if name in ("largest", "random 1"):
            jobs[f"kernels of {name}"] = partial(kernels, cell, plan)
    return jobs


def step_times(cell: Cell, plan: Plan) -> dict[str, Any]:
    """Microseconds of a step and of a validation image; what a full evaluation takes is EXTRAPOLATED from them."""
    split, device = noise(plan.images), plan.device
    full = plan.images // plan.batch
    with deterministic_float32(torch.device(device)):
        learner = learner_of(cell, split, plan)
        drawing = median_seconds(lambda: begin_epoch(learner), 3, device)

        def epoch() -> None:
            learner._position.zero_()
            for _ in range(full):
                learner._full_step()

        def eager() -> None:
            learner._position.zero_()
            learner.step(plan.batch)

        result = {"step_us": 1e6 * median_seconds(epoch, 3, device) / full}
        result |= {"ungraphed_step_us": 1e6 * median_seconds(eager, 5, device)}
        result |= {"draw_us_per_image": 1e6 * drawing / plan.images}
        draw = validation_times(learner, plan)
    result |= {f"validation_us_per_image_{size}": 1e6 * seconds for size, seconds in draw.items()}
    per_epoch = (
        result["step_us"] * IMAGES / plan.batch + (result["draw_us_per_image"] + 1e6 * min(draw.values())) * IMAGES
    )
    return {**result, "evaluation_s": EPOCHS * per_epoch / 1e6}


@torch.no_grad()
def validation_times(learner: Any, plan: Plan) -> dict[int, float]:
    """Seconds per image, of all networks, by the size of batches; until one needs too much memory."""
    learner._stack.train(False)
    result: dict[int, float] = {}
    for size in plan.sizes:
        try:
            images = torch.randn(size, plan.seeds, 28, 28, device=plan.device)
            result[size] = replayed_seconds(partial(learner._stack, images), plan) / size
        except torch.OutOfMemoryError:
            if not result:
                raise
            break
    return result


def kernels(cell: Cell, plan: Plan, count: int = 5) -> dict[str, Any]:
    """How many kernels a step has, and which take the most: name, calls and microseconds a step."""
    with deterministic_float32(torch.device(plan.device)):
        learner = learner_of(cell, noise(plan.images), plan)
        begin_epoch(learner)
        on_gpu = torch.device(plan.device).type == "cuda"
        count = count if on_gpu else 1
        with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
            for _ in range(count):
                learner._full_step()
            wait(plan.device)
    own, time_of = (DeviceType.CUDA, "self_device_time_total") if on_gpu else (DeviceType.CPU, "self_cpu_time_total")
    rows = [(getattr(e, time_of), e) for e in seen.key_averages() if e.device_type == own]
    rows = sorted(((us, e) for us, e in rows if us > 0), key=lambda row: -row[0])
    if not rows:
        return {"error": "the profiler saw no kernels: has this user the right to NVIDIA's performance counters?"}
    result = {"kernels": sum(e.count for _, e in rows) / count, "us": sum(us for us, _ in rows) / count}
    return {**result, "top": [[e.key[:120], e.count / count, us / count] for us, e in rows[:TOP]]}


def convolutions(plan: Plan) -> Jobs:
    """Jobs: each convolution of each cell of the network, for all seeds side by side."""
    jobs: Jobs = {}
    for channels, side in zip(CELL_CHANNELS, SIDES, strict=True):
        for kind in KINDS:
            jobs[f"{kind}, {channels} channels"] = partial(convolution_ways, kind, channels, side, plan)
    return some(jobs, plan)


def convolution_ways(kind: str, channels: int, side: int, plan: Plan) -> dict[str, Any]:
    """Microseconds forward and backward: cuDNN's settings, two memory formats; and one network alone."""
    size, groups = KINDS[kind]
    result: dict[str, Any] = {}
    for setting in SETTINGS:
        with convolving(setting):
            for name, memory in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
                seconds = convolution_seconds((plan.seeds, channels, side, size, groups), memory, plan)
                result |= {f"{setting}, {name}, {way}": 1e6 * value for way, value in seconds.items()}
    with convolving("as trained"):
        seconds = convolution_seconds((1, channels, side, size, groups), torch.contiguous_format, plan)
    result |= {f"one network, {way}": 1e6 * value for way, value in seconds.items()}
    best = min(
        (name[: name.rindex(",")] for name in result if name.startswith("searched")), key=lambda n: total(result, n)
    )
    now = "as trained, NCHW"
    return {"us_as_trained": total(result, now), "us_best": total(result, best), "best": best, "ways": result}


def total(result: dict[str, float], way: str) -> float:
    """Forward and backward."""
    return result[f"{way}, forward"] + result[f"{way}, backward"]


def convolution_seconds(shape: tuple[int, ...], memory: torch.memory_format, plan: Plan) -> dict[str, float]:
    """Forward, and backward to input and weights. shape: networks, channels of each, side, size and groups."""
    networks, channels, side, size, groups = shape
    device = torch.device(plan.device)
    images = torch.randn(plan.batch, networks * channels, side, side, device=device).to(memory_format=memory)
    weights = torch.randn(networks * channels, channels // groups, size, size, device=device).to(memory_format=memory)
    groups, padding = networks * groups, size // 2
    forward = partial(functional.conv2d, images, weights, padding=padding, groups=groups)
    outputs = forward()
    settings = ([0], [1, 1], [padding, padding], [1, 1], False, [0, 0], groups, [True, True, False])
    backward = partial(torch.ops.aten.convolution_backward, outputs, images, weights, *settings)
    return {"forward": replayed_seconds(forward, plan), "backward": replayed_seconds(backward, plan)}


@contextmanager
def convolving(setting: str) -> Iterator[None]:
    """cuDNN as this setting of SETTINGS has it."""
    deterministic, search, tf32 = SETTINGS[setting]
    cudnn = torch.backends.cudnn
    # Since torch 2.9 precision is said operation by operation; to mix that with the older flag is an error.
    precise: Flag = (cudnn, "allow_tf32", tf32)
    if hasattr(cudnn, "conv"):
        precise = (cudnn.conv, "fp32_precision", "tf32" if tf32 else "ieee")
    with temporary_attributes([(cudnn, "deterministic", deterministic), (cudnn, "benchmark", search), precise]):
        yield


def full_length(plan: Plan) -> Jobs:
    """Jobs: full evaluations by the trainer; one without enough time is measured as far as it came."""
    named = {name: cell for name, cell in named_cells().items() if name in ("random 1", "random 2", "largest")}
    chosen = sorted(named.items(), key=lambda item: item[0] == "largest")  # the one that takes longest at the end
    return {
        f"{name}, {images} images, {epochs} epochs": partial(evaluation, cell, images, epochs, plan)
        for images, epochs in plan.lengths
        for name, cell in chosen[: plan.cells]
    }


def evaluation(cell: Cell, images: int, epochs: int, plan: Plan) -> dict[str, Any]:
    """MEASURED seconds of an evaluation, of its first epoch with building and capturing, and of the others' median."""
    trainer = ImageTrainer(
        plan.split(images), TrainingSettings(plan.seeds, plan.batch, device=plan.device, arrangement="stacked")
    )
    ends = [time.perf_counter()]

    def report(number: int, epoch: int, error: float) -> None:
        if number == 0:
            ends.append(time.perf_counter())

    result: dict[str, Any] = {}
    try:
        done = trainer.evaluate(trial(cell, epochs), report, lambda: plan.seconds_left() <= 0)
        result = {"seconds": done.seconds, "diverged": done.diverged, "error_rate": statistics.fmean(done.errors)}
    except EvaluationStoppedError:
        result = {"cut_short": True}
    seconds = [b - a for a, b in pairwise(ends)]
    if seconds:
        result |= {"first_epoch_s": seconds[0], "later_epoch_s": statistics.median(seconds[1:] or seconds)}
    return {**result, "epochs": len(seconds)}


def shared_device(plan: Plan) -> Jobs:
    """Evaluations a minute when several processes share the device. Each count has its share of the time left."""
    cell = {**named_cells(), **cells_of_each()}[plan.together]

    def together(count: int, coming: int) -> dict[str, Any]:
        sharing = Sharing(plan.device, max(plan.images, BATCH), epochs=plan.epochs)
        return share(sharing, cell, count, plan.seconds_left() / coming)

    counts = plan.processes
    return {f"{count} processes": partial(together, count, len(counts) - i) for i, count in enumerate(counts)}


PARTS = {
    "machine": machine,
    "steps": steps,
    "convolutions": convolutions,
    "whole": full_length,
    "shared": shared_device,
}
