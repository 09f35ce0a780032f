"""Power, clocks and temperature while something runs: read, never set.

Through nvidia-ml-py where it is installed, else through ``nvidia-smi``.
"""

import subprocess
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from tidemill.probe.measure import visible

EVERY_S = 0.1
_FIELDS = "power.draw,clocks.sm,clocks.mem,temperature.gpu"


class Sample(NamedTuple):
    """One look at the card."""

    watts: float
    sm_mhz: float
    memory_mhz: float
    celsius: float


class Sampler:
    """Looks at the card from a thread until it is closed."""

    def __init__(self, index: int) -> None:
        self.samples: list[Sample] = []
        self._look = _reader(index)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(timeout=10)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            begun = time.monotonic()
            found = self._look()
            if found is not None:
                self.samples.append(found)
            self._is_over.wait(max(0.0, EVERY_S - (time.monotonic() - begun)))


def _reader(index: int) -> Callable[[], Sample | None]:
    return _nvml(index) if find_spec("pynvml") is not None else lambda: _smi(index)


def _nvml(index: int) -> Callable[[], Sample | None]:
    import pynvml  # noqa: PLC0415 - optional: nvidia-smi stands in for it

    try:
        pynvml.nvmlInit()
        name = visible.name_of(index)
        card = (
            pynvml.nvmlDeviceGetHandleByIndex(int(name))
            if name.isdigit()
            else pynvml.nvmlDeviceGetHandleByUUID(name)
        )
    except pynvml.NVMLError:
        return lambda: _smi(index)

    def look() -> Sample | None:
        try:
            return Sample(
                pynvml.nvmlDeviceGetPowerUsage(card) / 1000,
                pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM),
                pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_MEM),
                pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU),
            )
        except pynvml.NVMLError:
            return None

    return look


def _smi(index: int) -> Sample | None:
    command = ["nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", "-i",
               visible.name_of(index)]  # fmt: skip
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return Sample(*(float(part) for part in told.stdout.strip().split(",")))
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
        return None
