"""Under-used whole GPUs, from windows that were measured."""

import polars as pl

from tidemill.live.measured import underused
from tidemill.live.measured.windows import WINDOWS

HOUR = 3_600_000


def window(job: str, hour: int, **shares: int | None) -> dict[str, object]:
    """An hour of a job; shares in percent."""
    told = {f"{name}_ppm": None if value is None else 10_000 * value
            for name, value in shares.items()}  # fmt: skip
    return {"job": job, "start_ms": hour * HOUR, "end_ms": (hour + 1) * HOUR, **told}


WINDOWS_OF = [
    window("small", 0, sm=10, busy=90, dram=20, memory=30),
    window("small", 1, sm=30, busy=90, dram=20, memory=40),
    window("large in memory", 0, busy=10, dram=10, memory=60),
    window("other", 0, busy=20, dram=0, memory=5),
    window("half known", 0, busy=20, dram=10, memory=5),
    window("half known", 1, busy=20, dram=None, memory=5),
    window("half known", 2, busy=20, dram=None, memory=5),
]
JOBS = pl.DataFrame({
    "job": ["small", "large in memory", "other", "half known"],
    "user": ["ann", "ann", "ann", "bob"],
    "gpus": [8, 8, 1, 4],
    "gpu_type": ["h100", "h100", None, "h100"],
})  # fmt: skip


def find(prices: dict[str, int]) -> underused.Underused:
    """Among the jobs above."""
    return underused.find(pl.DataFrame(WINDOWS_OF, schema=WINDOWS), JOBS, prices)


def test_every_axis_must_be_small():
    """SM before busy, averages of compute and bandwidth, the most of memory; hours and dollars."""
    found = find({"H100": 2_000_000})
    first, second = found.jobs
    assert first == underused.UnderusedJob(
        "small", "ann", None, "h100", 8, 16 * HOUR, 200_000, 200_000, 400_000, 32_000_000
    )
    assert (second.job, second.usd_micro) == ("other", None)
    assert found.judged == 3


def test_what_is_not_known_is_not_judged():
    """A job without bandwidth for most of its time is neither under-used nor not."""
    found = find({"": 1_000_000})
    assert found.unknown == 1
    assert "half known" not in {job.job for job in found.jobs}


def test_users_add_up():
    """By user; dollars of a user are known where those of each of their jobs are."""
    assert find({"": 1_000_000}).users == (
        underused.UnderusedUser("ann", 2, 17 * HOUR, 17_000_000),
    )
    assert find({"H100": 1}).users[0].usd_micro is None
    assert find({}).document()["judged"] == 3
