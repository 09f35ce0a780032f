"""What the probe needs of this machine, and what to do where it is missing. Planning needs none."""

from importlib.util import find_spec

from tidemill.model.errors import BackendError

INSTALL = "pip install 'tidemill[probe]' on a machine with a GPU and its driver"


def torch_and_gpu(index: int) -> None:
    """Refuse, in words, where torch is not installed or sees no such GPU."""
    if find_spec("torch") is None:
        raise BackendError("the probe measures with torch, which is not installed here",
                           hint=f"{INSTALL}; nothing else in tidemill needs it")  # fmt: skip
    from tidemill.probe.measure import device  # noqa: PLC0415 - imports torch

    found = device.count()
    if found == 0:
        raise BackendError("torch is installed, but it sees no GPU",
                           hint="check `nvidia-smi`, CUDA_VISIBLE_DEVICES, and that torch was "
                           "built for the driver of this machine")  # fmt: skip
    if index >= found:
        raise BackendError(f"GPU {index} was asked for; this machine has {found}",
                           hint=f"--gpu takes 0 to {found - 1}")  # fmt: skip
