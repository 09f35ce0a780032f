"""How long work takes: arithmetic that kernels and Python share, as plain functions.

Kernels compile them (``kernel(rhythm.slowed_ms)``); for everybody else ``workload.progress`` and
``units.speedup`` have them.
"""

from tidemill.model.measures import ONE_PPM


def slowed_ms(work_ms: int, slow_ppm: int) -> int:
    """How long this much work takes where it is slowed, checkpoints left out."""
    return -(-work_ms * (ONE_PPM + slow_ppm) // ONE_PPM)


def time_ms(work_ms: int, speed_ppm: int) -> int:
    """How long some work, counted at full speed, takes at another; rounded up."""
    return -(-work_ms * ONE_PPM // speed_ppm)
