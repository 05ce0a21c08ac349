"""What a trial uses of its worker's machine: processors, memory and GPU, under the names of MLflow's system metrics."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from fmnas.search_spaces.errors import optional_module
from fmnas.trainers import TrainerError

logger = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two samples of memory and of the GPU."""

MEGABYTE = 1e6
KEY = "workers.system_metrics"


class SystemMonitor:
    """Samples the machine in a separate thread while a trial is evaluated.

    device: of the worker, as torch names it; with "cuda", the GPU that the worker sees is sampled, too.
    Raises TrainerError if psutil, or for a GPU nvidia-ml-py, is not installed.
    """

    def __init__(self, device: str) -> None:
        self._psutil = optional_module("psutil", KEY, TrainerError)
        self._samples_gpu = device.startswith("cuda")
        if self._samples_gpu:
            optional_module("pynvml", KEY, TrainerError)

    @contextmanager
    def measure(self) -> Iterator[dict[str, float]]:
        """Yield the metrics of what happens in the context. They are in it at the end; none if measuring failed.

        cpu_utilization_percentage: of all processors of the node; process_cpu_utilization_percentage: of this process,
        100 being one core; gpu_0_utilization_percentage: of the GPU. Each is the mean over the time in the context.
        Memory is the largest that was seen, in megabytes of 10^6 bytes.
        """
        metrics: dict[str, float] = {}
        over = Event()
        thread = Thread(target=self._sample, args=(over, metrics), name=KEY, daemon=True)
        thread.start()
        try:
            yield metrics
        finally:
            over.set()
            thread.join()

    def _sample(self, over: Event, metrics: dict[str, float]) -> None:
        try:
            metrics |= self._sample_until(over)
        except Exception:  # a failed measurement is not the trial's
            logger.warning("%s: the machine could not be measured during a trial", KEY, exc_info=True)

    def _sample_until(self, over: Event) -> dict[str, float]:
        process, samples = self._psutil.Process(), []
        self._psutil.cpu_percent()  # the next call returns the mean since this one
        process.cpu_percent()
        while not over.wait(INTERVAL):
            samples.append(self._read(process))
        samples.append(self._read(process))
        columns = {name: [sample[name] for sample in samples] for name in samples[0]}
        return {
            "cpu_utilization_percentage": self._psutil.cpu_percent(),
            "process_cpu_utilization_percentage": process.cpu_percent(),
            **{
                name: sum(values) / len(values) if name.endswith("percentage") else max(values)
                for name, values in columns.items()
            },
        }

    def _read(self, process: Any) -> dict[str, float]:
        sample = {
            "system_memory_usage_megabytes": self._psutil.virtual_memory().used / MEGABYTE,
            "process_memory_usage_megabytes": process.memory_info().rss / MEGABYTE,
        }
        if self._samples_gpu:
            from torch import cuda

            sample["gpu_0_utilization_percentage"] = cuda.utilization()
            sample["gpu_0_memory_usage_megabytes"] = cuda.device_memory_used() / MEGABYTE
        return sample
