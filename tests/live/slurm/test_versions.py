"""One story on a Slurm 22.05 and on a 24.11, as each of their commands printed it at one moment.

``tests/rigs/slurm/record.py`` made these files: jobs of every fate, parts of GPUs, steps that used
something, a command with a line break, limits of every sort. Text and JSON tell the same.
"""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.ledger.sums import amounts
from tests.live.slurm.test_text import PRINTED
from tests.rigs.slurm.record import AFTER, BEFORE, JSONS, OLDER, RUNS, TEXTS
from tests.rigs.slurm.story import STORY
from tidemill import api
from tidemill.ledger.buckets import ALLOCATED
from tidemill.live.history import events
from tidemill.live.prices import rules
from tidemill.live.slurm import amounts as tres
from tidemill.live.slurm import translate
from tidemill.live.slurm.reading import open_output
from tidemill.live.slurm.rows import SlurmJob
from tidemill.live.slurm.translate import SlurmPast
from tidemill.model.measures import WHOLE_MILLI

PRICES = rules.flat({rules.ANY: 2_000_000})
VERSIONS = ("22.05", "24.11")
FORMS = [(version, "") for version in VERSIONS] + [("24.11", f".{form}") for form in OLDER]
"""Of JSON: each version's own, and those of 23.11 and 24.05."""
USED = {"22.05": (745, 7024), "24.11": (801, 6340)}
"""CPU time in ms and KiB at the peak of the job `worked`, as `TotalCPU` and `MaxRSS` have it."""
UNSAID = {"grp_submit_jobs", "grp_tres_mins"}
"""Limits of a QOS that JSON before 24.11 leaves out."""
ALL = ("sacct", "squeue", "nodes", "events", "reservations", "partitions", "qos", "accounts")


def path(version: str, name: str, *, by_json: bool = False, form: str = "") -> Path:
    """A file of the story: JSON where it is asked for and that version has it, in this form."""
    packed = PRINTED / version / f"{name}{form}.json.gz"
    return packed if by_json and packed.exists() else PRINTED / version / f"{name}.txt"


def told(
    version: str, *names: str, by_json: bool = False, form: str = "", queue: str = "squeue"
) -> SlurmPast:
    """The past that these files tell; ``queue``: which of them says what waits."""
    found = [
        path(version, queue if name == "squeue" else name, by_json=by_json or name == "squeue",
             form=form)
        for name in names
    ]  # fmt: skip
    past = translate.read(found, "UTC")
    assert {name: one.total for name, one in past.refused.items()} == {}
    return past


def rows_of(where: Path) -> list[Any]:
    """All rows; nothing refused."""
    with open_output(where, zone="UTC") as reading:
        rows = list(reading.rows())
    assert [refusal.words() for refusal in reading.refusals.kept] == []
    return rows


def same(past: SlurmPast) -> tuple[Any, ...]:
    """What the past says, but for how long a suspended job is: the commands ran one by one."""
    order = past.attempts.sort("job", "start_ms")
    # JSON says the word alone, and of a reservation no state.
    words = pl.col("reason").str.replace(r"^(\w+), .*?: (a node)", "$1: $2")
    words = words.str.replace(" is INACTIVE", "", literal=True)
    notes = [note for note in past.notes if "suspended" not in note]
    return (order.with_columns(words).rows(named=True), past.nodes, past.queues, past.unread,
            past.shapes, past.deciders, past.numbers, notes)  # fmt: skip


def asked_s(version: str) -> int:
    """When the controller was asked, by its own clock: after all that the files tell."""
    text = (PRINTED / version / "sdiag.txt").read_text()
    return int(re.findall(r"sdiag output at .*\((\d+)\)", text)[0])


def books(past: SlurmPast, version: str) -> dict[tuple[int, str], int]:
    """What is in each bucket, by job, up to when the controller was asked."""
    until_ms = 1000 * asked_s(version)
    history = events.build(past.parts, past.nodes, PRICES, until_ms=until_ms, shapes=past.shapes)
    statement = api.keep_history(history).statement
    names = [*statement.world.job_names, ""]
    return {(bucket, names[j]): amount
            for (bucket, j), amount in amounts(statement, "bucket", "job").items()}  # fmt: skip


@pytest.mark.parametrize(("version", "form"), FORMS)
def test_every_form_is_read_whole_and_tells_the_same(version: str, form: str):
    """Text, JSON, and `scontrol show job` in place of squeue: attempts, nodes, teams and limits."""
    by_text, by_json = told(version, *ALL), told(version, *ALL, by_json=True, form=form)
    for other in (by_json, told(version, *ALL, queue="jobs")):
        for mine, theirs in zip(same(by_text), same(other), strict=True):
            assert mine == theirs
    assert books(by_text, version) == books(by_json, version)
    for name in {*TEXTS} - {"sdiag", "reserved"}:
        assert rows_of(path(version, name))
    for name in JSONS:
        assert rows_of(path(version, name, by_json=True, form=form))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_books_are_what_sacct_says(version: str):
    """By hand, from the numbers of the JSON: GPUs times seconds of every attempt on whole GPUs.

    One that runs still, or is suspended, up to when the controller was asked.
    """
    found = Counter[str]()
    printed = json.loads(gzip.decompress(path(version, "sacct", by_json=True).read_bytes()))
    for job in printed["jobs"]:
        time, array = job["time"], job["array"]
        task = array["task_id"]["number"] if version == "24.11" else array["task_id"]
        name = f"{array['job_id']}_{task}" if array["job_id"] else f"{job['job_id']}"
        name = f"{job['het']['job_id'] or name}"
        held = {f"{one['type']}/{one['name']}": one["count"] for one in job["tres"]["allocated"]}
        if time["start"] and job["partition"] == "gpu":
            end = time["end"] or asked_s(version)
            found[name] += 1000 * held["gres/gpu"] * (end - time["start"])
    told_by_us = Counter[str]()
    for (bucket, name), amount in books(told(version, *ALL), version).items():
        if bucket in ALLOCATED and name in found:
            told_by_us[name] += amount // WHOLE_MILLI
    assert +told_by_us == +found
    assert len(+found) >= 10


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by_json", [False, True], ids=["text", "json"])
def test_jobs_end_as_they_were_made(version: str, by_json: bool):
    """Name, state and GPUs of each; who was requeued, preempted or lost has an attempt for it."""
    rows = [row for row in rows_of(path(version, "sacct", by_json=by_json))
            if isinstance(row, SlurmJob)]  # fmt: skip
    ended = {row.name: row.state for row in rows if row.end_ms is not None}
    fates = {"again": "REQUEUED", "victim": "PREEMPTED", "moved": "NODE_FAIL", "lost": "NODE_FAIL",
             "overtime": "TIMEOUT", "worked": "COMPLETED"}  # fmt: skip
    assert fates.items() <= ended.items()
    assert all(row.start_ms for row in rows if row.state != "PENDING")
    queue = {row.name: row for row in rows_of(path(version, "squeue", by_json=True))}
    for one in (*BEFORE, *STORY, *AFTER, *([RUNS] if version == "24.11" else [])):
        if one.state == "PENDING":
            assert (one.name, queue[one.name].state) == (one.name, "PENDING")
            reason = "JobHeldUser" if "--hold" in one.options else one.reason
            assert (one.name, queue[one.name].reason.startswith(reason)) == (one.name, True)
    asked = {name: queue[name].gpus_requested
             for name in ("either", "askspertask", "askspernode", "asksinall")}  # fmt: skip
    assert asked == {"either": 1, "askspertask": 2, "askspernode": 6, "asksinall": 5}
    assert queue["either"].features == "rack0|rack1"
    assert queue["nogpu"].gpus_allocated in {0, None}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by_json", [False, True], ids=["text", "json"])
def test_what_a_job_used_is_said_by_its_steps(version: str, by_json: bool):
    """CPU time of all of them and the peak of the largest, gathered by Slurm; none without them."""
    (job,) = (row for row in rows_of(path(version, "sacct", by_json=by_json))
              if isinstance(row, SlurmJob) and row.name == "worked")  # fmt: skip
    used_ms, peak_kib = USED[version]
    assert job.cpu_used_ms == used_ms
    assert job.peak_bytes == 1024 * peak_kib
    (alone,) = (row for row in rows_of(path(version, "sacct_x", by_json=by_json))
                if isinstance(row, SlurmJob) and row.name == "worked")  # fmt: skip
    assert alone.peak_bytes is None


@pytest.mark.parametrize("version", VERSIONS)
def test_allocations_alone_tell_the_same_jobs(version: str):
    """`--allocations` leaves out what was used, and nothing else."""
    used = ("cpu_used_ms", "cpu_had_ms", "memory_used_ppm")
    whole, alone = (told(version, name, "squeue", "nodes") for name in ("sacct", "sacct_x"))
    parts = [past.attempts.sort("job", "start_ms").drop(used, strict=False)
             for past in (whole, alone)]  # fmt: skip
    assert parts[0].equals(parts[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_shards_are_of_the_gpu_that_is_divided(version: str):
    """Two of eight of the only A100, which stands beside seven MIG instances: a quarter of one."""
    past = told(version, "sacct", "squeue", "nodes")
    roles = {role.name: role for shape in past.shapes for role in shape.roles}
    assert (roles["shards"].count, roles["shards"].milli) == (1, WHOLE_MILLI // 4)
    (held,) = past.attempts.filter(job="31").rows(named=True)
    assert held["nodes"] == ["n5"]
    allocated = [amount for (bucket, name), amount in books(past, version).items()
                 if bucket in ALLOCATED and name == "31"]  # fmt: skip
    begun_s = held["start_ms"] // 1000
    assert sum(allocated) == 1000 * (asked_s(version) - begun_s) * WHOLE_MILLI // 4


@pytest.mark.parametrize("form", ["", *(f".{form}" for form in OLDER)])
@pytest.mark.parametrize("name", ["qos", "accounts"])
def test_limits_in_json_are_those_in_text(name: str, form: str):
    """Each has a value of its own in one row; TRES by amount, since memory is printed otherwise."""
    unsaid = UNSAID if form and name == "qos" else set[str]()
    texts, jsons = (
        [{key: _amounts(key, getattr(row, key)) for key in row.__struct_fields__}
         for row in rows_of(path("24.11", name, by_json=by_json, form=form))]
        for by_json in (False, True)
    )  # fmt: skip
    assert [{**row, **dict.fromkeys(unsaid)} for row in texts] == jsons
    every = next(row for row in jsons if row["name" if name == "qos" else "account"] == "every")
    unset = {key for key, value in every.items() if value is None}
    assert unset == unsaid | (set() if name == "qos" else {"user", "partition"})


def _amounts(key: str, value: Any) -> Any:
    return dict(tres.tres(value) or ()) if value and "tres" in key else value
