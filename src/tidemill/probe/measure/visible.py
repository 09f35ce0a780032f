"""Which card of the machine torch's number means, where CUDA_VISIBLE_DEVICES renumbers them."""

import os


def name_of(index: int) -> str:
    """What the driver calls torch's GPU ``index``: its number or its serial name."""
    seen = [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
    return seen[index] if index < len(seen) else str(index)
