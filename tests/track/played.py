"""Loops that are played in processes of their own, and what they wrote."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tidemill.live.track import Readings, read
from tidemill.live.track.records import StepsRecord, TrackRecord

ROOT = Path(__file__).resolve().parents[2]


def environment(folder: Path | None, **more: str) -> dict[str, str]:
    """The variables of a job that writes into a folder, and nothing of who runs the tests."""
    told = ("TIDEMILL", "SLURM", "KUBERNETES", "RANK", "WORLD_SIZE", "POD", "JOB_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(told)}
    env |= {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    return env | ({"TIDEMILL_TRACK": f"file:{folder}"} if folder else {}) | more


def play(code: str, folder: Path | None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python as a job, without any package but the standard library."""
    return subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment(folder, **more), text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip


def whole(folder: Path) -> Readings:
    """What was written, all of which can be used."""
    readings = read(folder)
    assert (readings.refused, readings.gaps, readings.repeated) == ([], [], 0)
    return readings


def kinds(records: Sequence[TrackRecord]) -> list[str]:
    """The types of records, without those of steps."""
    names = [str(type(one).__struct_config__.tag) for one in records]
    return [name for name in names if name != "steps"]


def stretches(records: Sequence[TrackRecord]) -> list[StepsRecord]:
    """The records of steps."""
    return [one for one in records if isinstance(one, StepsRecord)]


def steps(records: Sequence[TrackRecord]) -> int:
    """How many steps were done."""
    return sum(one.steps for one in stretches(records))
