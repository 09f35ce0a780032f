"""Launches as books have them: by the names of their jobs, or, without a scheduler, as attempts."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import polars as pl

from tidemill.live.history.rows import ATTEMPTS, AttemptEnd
from tidemill.live.measured.loops import STILL_US, Launch


def names_in(
    told: Sequence[Launch],
    jobs: Collection[str],
    pods: Mapping[tuple[str, str], str] | None = None,
) -> dict[str, str]:
    """How the books call the jobs of launches: by their name, or by what else names them.

    ``pods``: the job of each pod, by namespace and name. Jobs that the books do not know are left
    out.
    """
    found: dict[str, str] = {}
    for launch in told:
        for name in (*names_of(launch), *_by_pods(launch, pods or {})):
            if name in jobs:
                found.setdefault(launch.job, name)
    return found


def _by_pods(launch: Launch, pods: Mapping[tuple[str, str], str]) -> Iterator[str]:
    for process in launch.processes:
        ids = process.began.ids if process.began is not None else {}
        if (job := pods.get((ids.get("namespace", ""), ids.get("pod", "")))) is not None:
            yield job


def names_of(launch: Launch) -> Iterator[str]:
    """By what names the books may have the job of a launch, but for its pods."""
    yield launch.job
    for process in launch.processes:
        ids = process.began.ids if process.began is not None else {}
        if "slurm_array_job" in ids and "slurm_array_task" in ids:
            yield f"{ids['slurm_array_job']}_{ids['slurm_array_task']}"
        if "slurm_job" in ids:
            yield ids["slurm_job"]


def attempts(told: Sequence[Launch], gpu_type: str = "") -> pl.DataFrame:
    """The launches as attempts, where no scheduler tells of them: ``ATTEMPTS``.

    One that told nothing of its end was killed when it last told anything; unless that is within a
    few seconds of when everybody was last heard of.
    """
    until_us = max((launch.last_us for launch in told), default=0)
    rows = []
    for i, launch in enumerate(told):
        is_last = i + 1 == len(told) or told[i + 1].job != launch.job
        outcome = _outcome(launch, is_last, until_us)
        began = [process.began for process in launch.processes if process.began is not None]
        hosts = sorted({one.host for one in began if one.host})
        rows.append(
            {
                "job": launch.job, "submit_ms": None,
                "start_ms": launch.first_us // 1000,
                "end_ms": None if outcome is AttemptEnd.RUNNING else launch.last_us // 1000,
                "outcome": outcome, "gpus": launch.gpus, "gpu_type": gpu_type,
                "nodes": hosts or None,
                "team": next((one.team for one in began if one.team), None),
                "user": next((one.user for one in began if one.user), None),
            }
        )  # fmt: skip
    schema = {name: kind for name, kind in ATTEMPTS.items() if rows and name in rows[0]}
    return pl.DataFrame(rows, schema=schema)


def _outcome(launch: Launch, is_last: bool, until_us: int) -> AttemptEnd:
    ends = [process.ended for process in launch.processes]
    told = [end.outcome for end in ends if end is not None]
    if "failed" in told:
        return AttemptEnd.FAILED
    if None not in ends and told:
        return AttemptEnd.DONE if "interrupted" not in told else AttemptEnd.CANCELLED
    if is_last and launch.last_us > until_us - STILL_US:
        return AttemptEnd.RUNNING
    return AttemptEnd.FAILED if is_last else AttemptEnd.REQUEUED
