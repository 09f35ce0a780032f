"""How windows and events of a run become lines."""

import json
from typing import Any

from tidemill.track.format import LONGEST_LINE
from tidemill.track.meter import LoopWindow

FLOP_PER_MFLOP = 1_000_000
Fields = dict[str, Any]
ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def line(record: Fields) -> bytes:
    """A record as one line; what is None is unknown and left out."""
    told = {name: value for name, value in record.items() if value is not None}
    made = ENCODER.encode(told).encode() + b"\n"
    assert len(made) <= LONGEST_LINE, "texts are clipped where they come in"
    return made


def steps_fields(window: LoopWindow, skew_us: int) -> Fields:
    """What a record of steps says of a window."""
    told = (us if used else None for us, used in zip(window.spent_us, window.used, strict=True))
    other_us, compute_us, data_us, communication_us, checkpoint_us = told  # by ``LoopPart``
    fields = {
        "from_us": window.from_us,
        "until_us": window.until_us,
        "skew_us": skew_us,
        "steps": len(window.step_us),
        "data_us": data_us,
        "communication_us": communication_us,
        "checkpoint_us": checkpoint_us,
        "compute_us": compute_us,
        "other_us": other_us,
        "up_us": window.up_us,
    }
    return fields | _of_steps(window) if window.step_us else fields


def _of_steps(window: LoopWindow) -> Fields:
    ordered = sorted(window.step_us)
    tokens, samples, flops = window.amounts
    return {
        "first_step": window.first_step,
        "last_step": window.last_step,
        "last_end_us": window.last_end_us,
        "min_step_us": ordered[0],
        "median_step_us": ordered[(len(ordered) - 1) // 2],
        "max_step_us": ordered[-1],
        "tokens": tokens,
        "samples": samples,
        "mflop": None if flops is None else (flops + FLOP_PER_MFLOP // 2) // FLOP_PER_MFLOP,
    }
