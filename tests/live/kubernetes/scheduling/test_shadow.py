"""What our policy would have done with pods that kube-scheduler placed, checked by doing it."""

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.rigs.kubernetes.cluster import DIE_WITH_US, Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import node, pod
from tidemill import api
from tidemill.advise.shadow import comparing
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.states import JobState

PRICED = ("--usd-per-hour", "3600")
"""A dollar for each GPU and second."""
STRANDED_S = 5


def told_ms(journal: Path) -> int:
    """Up to when a journal tells."""
    if not journal.exists():
        return -1
    with open_journal(str(journal)) as opened:
        return api.last_ms(opened) if len(opened) else -1


def ended(journal: Path) -> int:
    """How many jobs have ended by a journal."""
    with open_journal(str(journal)) as opened:
        world = rebuild(opened)
    return sum(world.jobs.state[j] == JobState.DONE for j in range(world.job_count))


def bound(rig: Cluster, begins: str) -> int:
    """How many pods of these names have a node."""
    pods = rig.pods("ml").items()
    return sum(bool(one["spec"].get("nodeName")) for name, one in pods if name.startswith(begins))


def are_bound(rig: Cluster, begins: str, count: int) -> bool:
    """Whether so many pods of these names have a node."""
    return bound(rig, begins) == count


def passing(rig: Cluster, seconds: int) -> None:
    """Until so much time has passed: it is what is paid for."""
    until = time.monotonic() + seconds
    rig.wait_for(f"{seconds} s are over", lambda: time.monotonic() > until)


def are_told(journal: Path) -> bool:
    """Whether a journal says of both large pods why they wait."""
    with open_journal(str(journal)) as opened:
        found = {event.job for event in opened.read() if isinstance(event, ev.ReasonSeen)}
        names = rebuild(opened).job_names
    return {names[j] for j in found} >= {"ml/large0", "ml/large1"}


def fragmenting(rig: Cluster, scheduler: str, seen: Path | None = None) -> None:
    """Three pods of 2 GPUs on three nodes of 8, then two pods of 8 GPUs; then all of them end.

    ``seen``: the journal of whoever looks on; the large ones wait until it says why.
    """
    path = "/api/v1/namespaces/ml/pods"
    for i in range(3):
        rig.create(path, pod(f"small{i}", 2, cpu="24", schedulerName=scheduler))
        rig.wait_for("it is bound", partial(are_bound, rig, "small", i + 1))
    rig.wait_until_running("ml", 3)
    rig.create(path, *(pod(f"large{i}", 8, schedulerName=scheduler) for i in range(2)))
    passing(rig, STRANDED_S)
    if seen is not None:
        rig.wait_for("why they wait is told", lambda: are_told(seen))
    for i in range(3):
        rig.annotate("ml", f"small{i}", ends="Succeeded")
    rig.wait_for("the large run", lambda: bound(rig, "large") == 2)
    rig.wait_for("they do", lambda: {*rig.phases("ml").values()} == {"Running", "Succeeded"})
    passing(rig, 1)
    for i in range(2):
        rig.annotate("ml", f"large{i}", ends="Succeeded")
    rig.wait_for("all end", lambda: {*rig.phases("ml").values()} == {"Succeeded"})


def shadowed(rig: Cluster, token: str, folder: Path) -> dict[str, Any]:
    """The report of a shadow that may only read, of what kube-scheduler made of these pods."""
    config, journal = folder / "kubeconfig-reader", folder / "seen.sqlite"
    config.write_text(json.dumps(rig.config({"token": token})))
    with (folder / "report.json").open("w") as out, (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [*DIE_WITH_US, sys.executable, "-m", "tidemill", "schedule", "kubernetes", "--shadow",
             "--kubeconfig", str(config), "-j", str(journal), "--every", "1s", "--lateness", "1s",
             "--json", *PRICED],
            stdin=subprocess.DEVNULL, stdout=out, stderr=said,
        )  # fmt: skip
        try:
            rig.wait_for("it watches", lambda: told_ms(journal) > 0)
            fragmenting(rig, "default-scheduler", journal)
            rig.wait_for("that is told", lambda: ended(journal) == 5)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, (folder / "said").read_text()
        finally:
            process.kill()
    text = (folder / "report.json").read_text()
    found: dict[str, Any] = json.loads(text[text.index("\n{") :])
    return found


def written(rig: Cluster, user: str) -> set[str]:
    """What somebody asked the API server to do, by its own log, beside reading.

    What asks whether something is allowed (`kubectl auth can-i`, of another test) changes nothing.
    """
    lines = (json.loads(line) for line in rig.audit.read_text().splitlines())
    mine = [line for line in lines if line["user"].get("username", "").endswith(user)]
    asked = {line["verb"] for line in mine if "accessreviews" not in line["requestURI"]}
    return asked - {"get", "list", "watch"}


def test_what_kube_scheduler_lost_is_what_ours_saves(
    rig: Cluster, observer_token: str, tmp_path: Path
):
    """Small pods that are spread keep large ones out: the shadow says for how many dollars.

    It only reads. Our scheduler, on the same pods, then strands about as little as it said.
    """
    nodes = [node(f"n{i}") for i in range(3)]
    rig.add_nodes(*nodes)
    report = shadowed(rig, observer_token, tmp_path)
    assert written(rig, "tidemill:observer") == set()
    starts = {one["name"]: one for one in report["jobs"]}
    much = {name for name, one in starts.items() if one["change_ms"] <= -STRANDED_S * 500}
    assert much == {"ml/large0", "ml/large1"}
    for name in much:
        assert starts[name]["shadow_ms"] - starts[name]["came_ms"] <= 1000
        assert starts[name]["cause"] == "scattered"
    lost = report["stranded_usd_micro"]
    assert report["earlier"] >= 2, "on a busy machine others by the seconds that a bind took"
    assert lost["before"] - lost["after"] >= 16 * STRANDED_S * 500_000
    rig.clear()
    rig.add_nodes(*nodes)
    folder = tmp_path / "ours"
    folder.mkdir()
    with scheduling(rig, folder, *PRICED) as ours:
        fragmenting(rig, OURS)
        ours.stop()
    done = comparing.stranded_usd_micro(api.read_statement(str(ours.journal)).total())
    assert done is not None
    assert done < lost["before"] / 2
    again = api.replay(str(ours.journal), Policy(), str(folder / "again.sqlite"))
    assert (again.report.earlier, again.report.later, again.report.others) == ([], [], 0)
    assert len(again.report.starts) == 5
