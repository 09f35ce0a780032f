"""Who is stopped for another on a real cluster: whoever loses least, and only where it is worth it.

What a stop loses is told by `tidemill/checkpoint-interval`, and by the time since then.
"""

import json
import time
from pathlib import Path

from tests.live.kubernetes.scheduling.test_rights import JOBS, priorities, where
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node
from tidemill import api
from tidemill.model.states import JobState

POLICY = '[policy]\nmin_run = "0s"\n'
"""A preemption wins at least what it loses: the default."""


def saving(name: str, interval: str) -> Object:
    """A job of low priority that fills a node, and says how often it saves."""
    made = gang(name, 1, 8, schedulerName=OURS, priorityClassName="low")
    made["metadata"]["annotations"] = {"tidemill/checkpoint-interval": interval}
    return made


def better(name: str, expected: str) -> Object:
    """A job of high priority that needs a node for so long."""
    made = gang(name, 1, 8, schedulerName=OURS, priorityClassName="high")
    made["metadata"]["annotations"] = {"tidemill/expected-duration": expected}
    return made


def evicted(rig: Cluster) -> set[str]:
    """The jobs of whose pods ours asked the Eviction API, by the server's own log."""
    lines = map(json.loads, rig.audit.read_text().splitlines())
    return {
        line["objectRef"]["name"].partition("-")[0] for line in lines
        if line.get("objectRef", {}).get("subresource") == "eviction"
        and line["user"]["username"].endswith(":tidemill:scheduler")
        and "dryRun" not in line["requestURI"]
    }  # fmt: skip


def has_worked(rig: Cluster, journal: str, job: str) -> None:
    """Until the scheduler has known for two seconds that a job runs: before, it loses nothing."""

    def runs() -> bool:
        world, _ = api.open_world(journal)
        states = dict(zip(world.job_names, world.jobs.state, strict=False))
        return states.get(job) == JobState.RUNNING

    rig.wait_for(f"the scheduler knows that {job} runs", runs)
    end_s = time.monotonic() + 2
    rig.wait_for(f"{job} has worked", lambda: time.monotonic() > end_s)


def placed(rig: Cluster, job: str) -> str:
    """The node of the one pod of a job, when it has one."""
    rig.wait_for(f"{job} is placed", lambda: where(rig, job) not in ([], ["-"]))
    (found,) = where(rig, job)
    return found


def test_the_victim_that_loses_least_goes_and_nobody_for_less_than_that(
    rig: Cluster, tmp_path: Path
):
    """Three jobs fill three nodes, one after the other: the one that saves at any moment goes
    first, though it has run longest; then the younger of those that save every hour. For a job that
    would win less than the last of them loses that one stays; for one that wins more it goes.
    """
    priorities(rig)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(*(node(f"n{i}") for i in range(3)))
    with scheduling(rig, tmp_path, "--policy", str(policy), "--usd-per-hour", "2") as ours:
        for i, (name, interval) in enumerate(
            {"often": "10ms", "old": "1h", "young": "60m"}.items()
        ):
            rig.create(JOBS, saving(name, interval))
            rig.wait_until_running("ml", i + 1)
            has_worked(rig, ours.journal, f"ml/{name}")
        for i, victim in enumerate(("often", "young")):
            (place,) = where(rig, victim)
            rig.create(JOBS, better(f"patient{i}", "1h"))
            assert placed(rig, f"patient{i}") == place
        rig.create(JOBS, better("hasty", "10ms"))
        rig.wait_for("it is told", lambda: told(rig, "hasty")[0] == "Unschedulable")
        assert where(rig, "hasty") == ["-"]
        rig.ask("DELETE", f"{JOBS}/hasty?propagationPolicy=Background")
        (place,) = where(rig, "old")
        rig.create(JOBS, better("patient2", "1h"))
        assert placed(rig, "patient2") == place
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
    assert evicted(rig) >= {"often", "young", "old"}
