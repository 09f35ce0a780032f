"""An MPS daemon of our own, in a private folder, for as long as two tenants need it.

Never where one is running already (it would be another's), and always stopped again. The compute
mode of the card stays as it is: in the default mode clients of MPS and others share the card.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.model.errors import BackendError
from tidemill.probe.measure import visible

CONTROL = "nvidia-cuda-mps-control"
_PLACES = ("/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/usr/lib/nvidia/bin")
_DEFAULT_PIPES = Path("/tmp/nvidia-mps")  # where NVIDIA's daemon listens by default


def control() -> str | None:
    """The daemon's program, or None where it is not installed."""
    return shutil.which(CONTROL) or shutil.which(CONTROL, path=os.pathsep.join(_PLACES))


def running() -> str | None:
    """Where a daemon seems to be running already, or None."""
    if told := os.environ.get("CUDA_MPS_PIPE_DIRECTORY"):
        return f"CUDA_MPS_PIPE_DIRECTORY={told}"
    if (_DEFAULT_PIPES / "control").exists():
        return str(_DEFAULT_PIPES)
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = path.read_text(encoding="utf-8").strip()
        except OSError:
            continue  # it ended while we looked
        if name.startswith("nvidia-cuda-mps"):
            return f"process {path.parent.name}"
    return None


@contextmanager
def daemon(index: int) -> Iterator[dict[str, str]]:
    """Start a daemon; gives the environment for its clients; stop it."""
    program = control()
    if program is None:
        raise BackendError(f"`{CONTROL}` is not installed", hint="it comes with NVIDIA's driver")
    if found := running():
        raise BackendError(f"an MPS daemon is running already ({found}); it was left alone",
                           hint="time-slicing cannot be measured beside it either")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="tidemill-mps-") as folder:
        (Path(folder) / "pipe").mkdir()
        (Path(folder) / "log").mkdir()
        ours = {
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log",
        }
        environment = {**os.environ, **ours, "CUDA_VISIBLE_DEVICES": visible.name_of(index)}
        subprocess.run([program, "-d"], env=environment, timeout=30, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            yield ours
        finally:
            subprocess.run([program], input="quit\n", text=True, env=environment, timeout=60,
                           check=False, capture_output=True)  # fmt: skip
