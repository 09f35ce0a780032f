"""The device as torch and the driver show it. Nothing here changes a setting of the card."""

import platform
import subprocess

import torch

from tidemill.probe.card import Unit
from tidemill.probe.measure import visible

_FIELDS = "driver_version,power.limit,uuid"


def count() -> int:
    """How many GPUs torch sees."""
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def unit(index: int) -> Unit:
    """Which unit this is."""
    properties = torch.cuda.get_device_properties(index)
    driver, limit, uuid = _asked(index)
    return Unit(
        name=torch.cuda.get_device_name(index),
        id=uuid.removeprefix("GPU-")[:8],
        memory_bytes=int(properties.total_memory),
        processors=int(properties.multi_processor_count),
        power_limit_w=limit,
        driver=driver,
        software=f"torch {torch.__version__}, Python {platform.python_version()}",
        host=f"{platform.machine()}, Linux {platform.release()}",
    )


def free(index: int) -> None:
    """Give cached memory back to the device, for the next measurement and for others."""
    torch.cuda.synchronize(index)
    torch.cuda.empty_cache()


def _asked(index: int) -> tuple[str, float | None, str]:
    """The driver's version, the power limit and the serial name; empty where it does not say."""
    command = ["nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", "-i",
               visible.name_of(index)]  # fmt: skip
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        driver, limit, uuid = (part.strip() for part in told.stdout.strip().split(","))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "", None, ""
    try:
        return driver, float(limit), uuid
    except ValueError:
        return driver, None, uuid
