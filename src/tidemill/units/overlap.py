"""What a training program runs behind its compute: the communication that nobody waits for."""

from enum import StrEnum

from msgspec import Struct


class Behind(StrEnum):
    """Which of the tensor-parallel communication runs behind matrix products."""

    NONE = "none"
    BACKWARD = "backward"
    """Behind the gradients of the weights, as Megatron-LM does since 2022."""
    ALL = "all"
    """Products are cut into chunks, each sent while the next is computed (MegaScale, TE)."""


class Hiding(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Choices of the program."""

    tensor: Behind = Behind.BACKWARD
    data: bool = True
    """Gradients are reduced while the last micro-batch is still in its backward pass."""
    expert: bool = False
    """Tokens travel to their experts behind the compute of another micro-batch (DualPipe)."""
    pipeline: bool = True
    """Stages send while they compute; else the sends of a micro-batch are waited for."""


SLOWED = 0.2
"""Of the time that communication runs behind compute, what compute loses to it: its kernels take
some of the same processors and memory bandwidth."""
CHUNKS = 8
"""Of a product whose communication runs behind it: the first or last chunk is never hidden."""
BACKWARD_SHARE = 0.6
"""Of a micro-batch's time, the part behind which gradients can travel."""


def shown_s(total_s: float, behind_s: float, edge_s: float) -> float:
    """What is seen of some communication that may run behind so much compute; its edge never."""
    hidden = max(0.0, min(total_s - edge_s, behind_s))
    return total_s - hidden * (1 - SLOWED)
