"""Killing a scheduler that drains nodes or resizes gangs: `python -m … drain|resize COUNT [SEED]`.

As ``kills``: the scheduler is killed (`kill -9`) some times at random instants after it began, then
left alone until rest. Draining: a node is to be taken while gangs, some of them with a disruption
budget that lets all of their pods go and one that lets one go, sit on it. Resizing: a better gang
comes to a full cluster of elastic ones, and goes. At rest nothing is over-committed, in part or
lost, and the journal tells what the cluster shows; who could leave has left, and who was made
smaller is as large as it was.
"""

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.forked import ForkedProcess
from tests.rigs.kubernetes.kills import JOBS
from tests.rigs.kubernetes.scheduled import OURS, Process, in_part, live, ready_rig, wrong
from tests.rigs.kubernetes.story import AT_ONCE, MERGE, SETS
from tests.rigs.kubernetes.wanted import gang, gang_notes, node, replica_set
from tests.rigs.slurm.cluster import quick_folder

Object = dict[str, Any]
BUDGETS = "/apis/policy/v1/namespaces/ml/poddisruptionbudgets"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
KILLS_AT_ONCE = 4
LONGEST_S = 0.4
"""So long after it began a scheduler is killed at the latest."""
REST_S = 150.0
POLICY = """
[policy]
min_run = "0s"
preempt_gain_ppm = 0
grow_after = "1s"
"""


class Killer:
    """Kills one scheduler of ours as often as it may, and counts into what that fell."""

    def __init__(self, rig: Cluster, ours: Process, kills: int, seed: int) -> None:
        self.rig, self.ours, self.left, self.seed = rig, ours, kills, seed
        self.chance, self.tick = random.Random(seed), threading.Event()
        self.fell: Counter[str] = Counter()

    def then_rest(self, what: str, amiss: Callable[[], list[str]]) -> None:
        """Some kills; then it is left alone until nothing is amiss, and ended in good order."""
        for _ in range(min(KILLS_AT_ONCE, self.left)):
            self.start()
            self.tick.wait(self.chance.uniform(0, LONGEST_S))
            self.ours.kill()
            self.left -= 1
            is_begun = any("deletionTimestamp" in p["metadata"] for p in live(self.rig))
            self.fell["in a gang" if in_part(self.rig) else
                      "pods leave" if is_begun else "otherwise"] += 1  # fmt: skip
        self.start()
        begun, found = time.monotonic(), ["not looked at yet"]
        while found := [*amiss(), *wrong(self.rig, self.ours.journal)]:
            if time.monotonic() - begun > REST_S:
                said = self.ours.said.read_text()[-3000:]
                raise AssertionError(f"seed {self.seed}, {what}: {found}\n{said}")
            self.tick.wait(0.3)
        print(f"{what}: all is right, {self.left} kills left; {dict(self.fell)}",
              file=sys.stderr, flush=True)  # fmt: skip
        self.ours.kill()

    def start(self) -> None:
        """Start it; returns when it decides."""
        self.ours.said.unlink(missing_ok=True)
        self.ours.start()
        self.ours.wait_for("began")


def gang_set(name: str, pods: int, gpus: int, **notes: str) -> Object:
    """A ReplicaSet whose pods are one gang of ours."""
    return replica_set(name, pods, gpus, gang_notes(name, pods, **notes), schedulerName=OURS)


def budget(name: str, most: int) -> Object:
    """So many pods of a gang may be gone at once."""
    return {"metadata": {"name": name, "namespace": "ml"},
            "spec": {"maxUnavailable": most,
                     "selector": {"matchLabels": {"set": name}}}}  # fmt: skip


def where(rig: Cluster, name: str) -> list[str]:
    """The nodes of the pods of a gang, "-" for those that wait, "leaves" for those that leave."""
    return sorted(
        "leaves" if "deletionTimestamp" in one["metadata"] else one["spec"].get("nodeName", "-")
        for one in live(rig)
        if one["metadata"]["name"].startswith(f"{name}-")
    )


# Draining -----------------------------------------------------------------------------------------

NODES, GANGS, SIZE, EACH = 8, 3, 16, 1


def drain_often(killer: Killer) -> None:
    """Nodes are to be taken, one after the other, until as many kills were made as asked for."""
    rig = killer.rig
    rig.add_nodes(*(node(f"n{i}") for i in range(NODES)))
    rig.create(SETS, *(gang_set(f"g{i}", SIZE, EACH) for i in range(GANGS)))
    rig.create(BUDGETS, budget("g0", SIZE), budget("g1", 1))
    killer.then_rest("at the beginning", lambda: _elsewhere(rig, ""))
    turn = 0
    while killer.left:
        turn += 1
        name = killer.chance.choice(where(rig, f"g{killer.chance.randrange(GANGS)}"))
        soon = datetime.now(UTC) + timedelta(seconds=5)
        _note(rig, name, soon.isoformat())
        killer.then_rest(f"round {turn}, {name} is to be taken", partial(_elsewhere, rig, name))
        _note(rig, name, None)
        killer.then_rest(f"round {turn}, {name} stays", lambda: _elsewhere(rig, ""))


def _note(rig: Cluster, name: str, drain_by: str | None) -> None:
    body = {"metadata": {"annotations": {"tidemill/drain-by": drain_by}}}
    rig.ask("PATCH", f"/api/v1/nodes/{name}", body, kind=MERGE)


def _elsewhere(rig: Cluster, taken: str) -> list[str]:
    """What is not at rest: gangs that are not whole, or still on a node that is to be taken.

    The gang of whose pods one may be gone at a time stays where it is, whole.
    """
    found = list[str]()
    for i in range(GANGS):
        here = where(rig, f"g{i}")
        is_whole = len(here) == SIZE and not {"-", "leaves"} & {*here}
        if not is_whole or (taken in here and i != 1):
            found.append(f"g{i} is on {here}")
    for one in rig.items("/api/v1/nodes"):
        is_cordoned = bool(one["spec"].get("unschedulable"))
        if is_cordoned != (one["metadata"]["name"] == taken):
            found.append(f"{one['metadata']['name']} is cordoned: {is_cordoned}")
    return found


# Resizing -----------------------------------------------------------------------------------------

FULL, LEAST = 12, 4


def resize_often(killer: Killer) -> None:
    """A better gang comes and goes, until as many kills were made as asked for."""
    rig = killer.rig
    rig.add_nodes(*(node(f"n{i}") for i in range(3)))
    rig.create(SETS, gang_set("wide", FULL, 1, gang_least=str(LEAST)))
    deep = gang("deep", FULL, 1, schedulerName=OURS)
    deep["spec"]["backoffLimit"] = 1000
    deep["metadata"]["annotations"] = {"tidemill/gang-least": str(LEAST)}
    rig.create(JOBS, deep)
    killer.then_rest("at the beginning", lambda: _sized(rig, 0))
    turn = 0
    while killer.left:
        turn += 1
        pods = killer.chance.randint(2, 14)
        rig.create(JOBS, gang("better", pods, 1, schedulerName=OURS, priorityClassName="high"))
        killer.then_rest(f"round {turn}, {pods} better pods", partial(_sized, rig, pods))
        rig.ask("DELETE", f"{JOBS}/better", AT_ONCE)
        killer.then_rest(f"round {turn}, without them", lambda: _sized(rig, 0))


def _sized(rig: Cluster, better: int) -> list[str]:
    """What is not at rest: pods that wait or leave, and gangs that are too large or too small."""
    here = {name: where(rig, name) for name in ("wide", "deep", "better")}
    found = [f"{name} is on {some}" for name, some in here.items() if {"-", "leaves"} & {*some}]
    if len(here["better"]) != better:
        found.append(f"{len(here['better'])} better pods instead of {better}")
    sizes = {name: len(here[name]) for name in ("wide", "deep")}
    if sum(sizes.values()) != 2 * FULL - better or min(sizes.values()) < LEAST:
        found.append(f"sizes are {sizes}")
    return found


def main() -> None:
    """Kill as often as asked, on a rig of its own."""
    what, kills = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder)) as rig,
    ):
        policy = Path(folder) / "policy.toml"
        policy.write_text(POLICY)
        rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / f"{what}.yaml"))
        rig.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 1000})
        with ForkedProcess(
            rig, Path(folder), f"--may-{what}", "--policy", str(policy)
        ) as ours:  # fmt: skip
            killer = Killer(rig, ours, kills, seed)
            {"drain": drain_often, "resize": resize_often}[what](killer)
    print(f"{kills} kills while it may {what} (seed {seed}) in {time.monotonic() - begun:,.0f} s:"
          f" {dict(killer.fell)}; all is right")  # fmt: skip


if __name__ == "__main__":
    main()
