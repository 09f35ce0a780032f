"""The tenants of the probe: six small workloads that press on different axes.

Each is a chain of matrix products, so that its operations and bytes are known by counting.
``serve`` and ``train`` are the pair of the H200 figures of 2026-11 (latency and batch tenant).
"""

from itertools import combinations_with_replacement
from typing import Literal, NamedTuple


class Workload(NamedTuple):
    """A chain of ``layers`` products of (rows × width) by (width × width)."""

    kind: str
    words: str
    rows: int
    width: int
    layers: int
    dtype: Literal["bfloat16", "float16"]
    is_graph: bool = False
    """Launched as one graph: the host costs nothing between kernels."""
    every_ms: float = 0.0
    """A request each so many milliseconds; 0: as fast as it can."""

    @property
    def flops(self) -> float:
        """Of one iteration."""
        return 2.0 * self.layers * self.rows * self.width**2

    @property
    def bytes(self) -> float:
        """Weights read once and activations read and written, where they exceed the cache."""
        weights = 2.0 * self.layers * self.width**2
        if weights < CACHED_BYTES:
            return 0.0
        return weights + 4.0 * self.layers * self.rows * self.width

    @property
    def memory_bytes(self) -> int:
        """What it holds."""
        return 2 * (self.layers * self.width**2 + 2 * self.rows * self.width)


CACHED_BYTES = 40e6
"""Weights below this stay in the second-level cache of a current part (50 to 126 MB)."""

WORKLOADS = (
    Workload("train", "4 layers 8192², 8192 rows: saturates the matrix units",
             8192, 8192, 4, "bfloat16"),
    Workload("prefill", "8 layers 4096², 2048 rows: a prompt, short kernels, matrix units",
             2048, 4096, 8, "bfloat16", is_graph=True),
    Workload("decode", "16 layers 8192², 4 rows: token by token, saturates memory bandwidth",
             4, 8192, 16, "bfloat16", is_graph=True),
    Workload("small-kernels", "32 layers 768², 768 rows: kernels too small to fill the device",
             768, 768, 32, "bfloat16", is_graph=True),
    Workload("serve", "12 layers 2048², 16 rows, launched one by one: waits on its host",
             16, 2048, 12, "float16"),
    Workload("paced", "as serve, 250 requests a second: idle most of the time",
             16, 2048, 12, "float16", every_ms=4.0),
)  # fmt: skip

BY_KIND = {workload.kind: workload for workload in WORKLOADS}
PAIRS = tuple(combinations_with_replacement((w.kind for w in WORKLOADS), 2))
"""Every two of them, and each beside its like: 21."""
QUICK_PAIRS = (("train", "serve"), ("decode", "serve"), ("train", "decode"))
