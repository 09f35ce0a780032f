"""A checkpoint: device to host to disk; the step waits for all of it, or for the copy only."""

import os
import tempfile
import threading
import time
from pathlib import Path

import torch

from tidemill.probe.card import CheckpointTiming

BYTES = 4 << 30
QUICK_BYTES = 1 << 30


def checkpoint(folder: Path, size: int = BYTES) -> CheckpointTiming:
    """Save ``size`` bytes of the device below ``folder``, twice, and remove them again."""
    state = torch.randint(0, 255, (size,), device="cuda", dtype=torch.uint8)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    _to_host(state, host)  # the first copy maps the pages
    with tempfile.TemporaryDirectory(prefix="tidemill-probe-", dir=folder) as place:
        path = Path(place) / "state"
        copy_s = _to_host(state, host)
        disk_s = _to_disk(host, path)
        path.unlink()
        writer = threading.Thread(target=_to_disk, args=(host, path))
        begun = time.monotonic()
        _to_host(state, host)
        writer.start()  # from here on steps would go on
        stall_s = time.monotonic() - begun
        writer.join()
    return CheckpointTiming(
        bytes=size,
        to_host_s=copy_s,
        to_disk_s=disk_s,
        sync_stall_s=copy_s + disk_s,
        async_stall_s=stall_s,
        disk=_disk(folder),
    )


def _to_host(state: torch.Tensor, host: torch.Tensor) -> float:
    begun = time.monotonic()
    host.copy_(state, non_blocking=True)
    torch.cuda.synchronize()
    return time.monotonic() - begun


def _to_disk(host: torch.Tensor, path: Path) -> float:
    begun = time.monotonic()
    with path.open("wb") as file:
        file.write(memoryview(host.numpy()))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - begun


def _disk(folder: Path) -> str:
    """The kind of file system that the folder is on."""
    best = ("", "")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, kind, *_ = line.split()
        if folder.resolve().is_relative_to(mount) and len(mount) > len(best[0]):
            best = (mount, kind)
    return best[1]
