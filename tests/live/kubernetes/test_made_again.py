"""Objects that were made again under their names: each is a job, and nobody waits in between."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.test_exports import HOUR, books, export, hours, read, running, state
from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.live.history import events
from tidemill.live.measured.windows import SAVES, UPS, WINDOWS, Measurements
from tidemill.model.states import JobState

Object = dict[str, Any]
JOB = ("batch/v1", "Job", "train")
TEN_MS = made.BEGIN_MS + 10 * 3_600_000


def of(uid: str, one: Object) -> Object:
    """The object with another uid; a pod with an owner of another."""
    for ref in one["metadata"].get("ownerReferences", ()):
        ref["uid"] = uid
    if one["kind"] != "Pod" or not one["metadata"].get("ownerReferences"):
        one["metadata"]["uid"] = uid
    return one


def ended(name: str, gpus: int, since: int, end: int, phase: str, **rest: Any) -> Object:
    """A pod that ran from one hour to another."""
    return running(name, gpus, since, end=end * HOUR, phase=phase, **rest)


def job(uid: str, created: int, *conditions: tuple[str, int]) -> Object:
    """A Job with one pod at a time; ``conditions`` and at which hour they came true."""
    told = [{"type": kind, "status": "True", "lastTransitionTime": made.moment(at * HOUR)}
            for kind, at in conditions]  # fmt: skip
    spec = {"parallelism": 1, "completions": 1, "template": made.template(8)}
    status = {"conditions": told}
    return of(
        uid, made.owner("batch/v1", "Job", "train", spec, created=created * HOUR, status=status)
    )


@pytest.mark.parametrize(
    ("phase", "became"), [("Failed", JobState.FAILED), ("Succeeded", JobState.DONE)]
)
def test_a_pod_that_is_made_again_is_another_job(tmp_path: Path, phase: str, became: JobState):
    """train ran for the first 2 h of 10; another train is made after 8 h: 48 h had no demand."""
    past = read(
        tmp_path,
        one=export(4, of("first", ended("train", 8, 0, 2, phase))),
        two=export(10, of("second", running("train", 8, 8))),
    )
    run = books(past)
    assert hours(run) == {Bucket.NO_DEMAND: 48, Bucket.UNKNOWN: 32}
    assert state(run, "ml/train") is became
    assert state(run, "ml/train#2") is JobState.RUNNING
    assert run.world.jobs.submit_ms[: run.world.job_count].tolist() == [0, 8 * 3_600_000]


@pytest.mark.parametrize(
    ("phase", "condition", "became"),
    [("Failed", "Failed", JobState.FAILED), ("Succeeded", "Complete", JobState.DONE)],
)
@pytest.mark.parametrize("lists", ["both", "first", "second"])
def test_a_job_object_that_is_made_again_is_another_job(
    tmp_path: Path, phase: str, condition: str, became: JobState, lists: str
):
    """As told by its uid in the pods, also where an export lists no Jobs."""
    jobs = {"first": job("J1", 0, (condition, 2)), "second": job("J2", 8)}
    here = {name: [one] if lists in ("both", name) else [] for name, one in jobs.items()}
    past = read(
        tmp_path,
        one=export(4, *here["first"], of("J1", ended("train-a", 8, 0, 2, phase, owner=JOB))),
        two=export(10, *here["second"], of("J2", running("train-b", 8, 8, owner=JOB))),
    )
    run = books(past)
    assert hours(run) == {Bucket.NO_DEMAND: 48, Bucket.UNKNOWN: 32}
    states = {name: state(run, name) for name in run.world.job_names}
    assert states == {"ml/train": became, "ml/train#2": JobState.RUNNING}


def test_a_job_object_whose_next_has_no_pods_yet_is_over(tmp_path: Path):
    """J1 is complete after 2 h; J2 of the same name waits for its first pod since 8 h."""
    past = read(
        tmp_path,
        one=export(4, job("J1", 0, ("Complete", 2)),
                   of("J1", ended("train-a", 8, 0, 2, "Succeeded", owner=JOB))),
        two=export(10, job("J2", 8), running("other", 1, 9)),
    )  # fmt: skip
    run = books(past)
    assert state(run, "ml/train") is JobState.DONE
    assert state(run, "ml/train#2") is JobState.WAITING


@pytest.mark.parametrize("kind", [JOB, ("apps/v1", "StatefulSet", "train")])
def test_pods_that_one_object_makes_again_are_attempts_of_one_job(
    tmp_path: Path, kind: tuple[str, str, str]
):
    """A pod fails after 2 h, the next is bound after 8: it waited for 6 h."""
    owners = [job("uid-train", 0)] if kind == JOB else []
    again = running("train-0", 8, 3, owner=kind, bound=8 * HOUR)
    again["metadata"]["uid"] = "another"
    past = read(
        tmp_path,
        one=export(4, *owners, ended("train-0", 8, 0, 2, "Failed", owner=kind)),
        two=export(10, *owners, again),
    )
    run = books(past)
    assert len(run.world.job_names) == 1
    assert run.world.jobs.attempt[0] == 2
    assert Bucket.NO_DEMAND not in hours(run)


def test_what_is_measured_by_a_name_is_of_the_job_that_had_it_then(tmp_path: Path):
    """A loop told half of all time as waiting for data: 8 of 16 h of each of two jobs."""
    past = read(
        tmp_path,
        one=export(4, of("first", ended("train", 8, 0, 2, "Succeeded"))),
        two=export(10, of("second", running("train", 8, 8))),
    )
    window = {"job": "ml/train", "start_ms": made.BEGIN_MS, "end_ms": TEN_MS, "source": "track",
              "data_ppm": 500_000}  # fmt: skip
    measured = Measurements(
        pl.DataFrame([window], schema=WINDOWS), pl.DataFrame(schema=SAVES), pl.DataFrame(schema=UPS)
    )
    history = events.build(
        past.attempts, past.nodes, until_ms=past.seen_ms, shapes=past.shapes, measured=measured
    )
    assert hours(api.keep_history(history))[Bucket.HOST] == 16
