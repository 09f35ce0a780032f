"""Nodes that are going to be taken are cordoned, and left by whole gangs, on a real cluster."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import beat, fleet, job, submit
from tests.live.kubernetes import made
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang_notes, node, pod, replica_set
from tidemill.journal import open_journal
from tidemill.live.kubernetes import nodes, notices
from tidemill.live.kubernetes.api.writing import Written
from tidemill.live.kubernetes.notices import NodeNotice
from tidemill.live.kubernetes.scheduling.draining import Drains
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.model import events as ev
from tidemill.model.events import Why
from tidemill.model.world import World

SETS = "/apis/apps/v1/namespaces/ml/replicasets"
MERGE = "application/merge-patch+json"


def says(rig: Cluster, name: str, **told: str | None) -> None:
    """Set annotations of a node, or take them away."""
    notes = {f"tidemill/{key.replace('_', '-')}": value for key, value in told.items()}
    body = {"metadata": {"annotations": notes}}
    rig.ask("PATCH", f"/api/v1/nodes/{name}", body, kind=MERGE)


def is_cordoned(rig: Cluster, name: str) -> bool:
    """Whether a node takes no new pods."""
    return bool(rig.ask("GET", f"/api/v1/nodes/{name}")["spec"].get("unschedulable"))


def where(rig: Cluster, job: str) -> set[str]:
    """The nodes of the pods of a job that run."""
    return {
        one["spec"]["nodeName"]
        for name, one in rig.pods("ml").items()
        if name.startswith(job) and one["status"]["phase"] == "Running"
    }


def names(rig: Cluster, job: str) -> set[str]:
    """The pods of a job."""
    return {name for name in rig.pods("ml") if name.startswith(job)}


def told_of(rig: Cluster, reason: str) -> set[str]:
    """The pods that have an Event of ours with this reason."""
    found = rig.items("/apis/events.k8s.io/v1/namespaces/ml/events")
    return {one["regarding"]["name"] for one in found
            if one["reason"] == reason and one.get("reportingController") == OURS}  # fmt: skip


@pytest.mark.usefixtures("may_drain")
def test_a_gang_leaves_a_node_before_it_is_taken(rig: Cluster, tmp_path: Path):
    """Cordoned at once; after half of a short notice the whole gang goes, from other nodes too.

    Bare pods, and those of others, stay: nobody would make them again. When the notice is taken
    back, so is the cordon.
    """
    rig.add_nodes(node("n0"), node("n1"))
    # a set makes its pods again at once, a Job after a pause
    rig.create(SETS, replica_set("train", 2, 6, gang_notes("train", 2), schedulerName=OURS))
    rig.create("/api/v1/namespaces/ml/pods", pod("bare", 1, schedulerName=OURS), pod("other", 1))
    with scheduling(rig, tmp_path, "--may-drain") as ours:
        rig.wait_until_running("ml", 4)
        assert where(rig, "train") == {"n0", "n1"}
        before, others = names(rig, "train"), (where(rig, "bare"), where(rig, "other"))
        rig.add_nodes(node("n2"))
        soon = datetime.now(UTC) + timedelta(seconds=6)
        says(rig, "n0", drain_by=soon.isoformat())
        rig.wait_for("it is cordoned", lambda: is_cordoned(rig, "n0"))
        rig.wait_for("the gang sits elsewhere", lambda: where(rig, "train") == {"n1", "n2"})
        rig.wait_for("pods that left know why", lambda: told_of(rig, "Drained") == before)
        bound = before | names(rig, "train") | {"bare"}
        rig.wait_for("pods know who placed them", lambda: told_of(rig, "Scheduled") >= bound)
        assert before.isdisjoint(names(rig, "train"))
        assert (where(rig, "bare"), where(rig, "other")) == others
        says(rig, "n0", drain_by=None)
        rig.wait_for("it takes pods again", lambda: not is_cordoned(rig, "n0"))
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
    rig.ask("DELETE", f"{SETS}/train")
    with open_journal(str(ours.journal)) as journal:
        asked = [one for one in journal.read(0) if isinstance(one, ev.AskedEvict)]
    # a pod that its set makes before the other one has gone may have the gang placed once more
    assert [one.why for one in asked] in ([Why.DRAINED], [Why.DRAINED, Why.REPACKED])


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"metadata": {"annotations": {"tidemill/drain-by": "2026-11-17T08:00:00Z"}}},
         NodeNotice(Why.DRAINED, "tidemill/drain-by", 1_794_902_400_000)),
        ({"metadata": {"annotations": {"tidemill/drain-by": "soon"}}}, None),
        ({"metadata": {"annotations": {"tidemill/drain-by": "2026-11-17T08:00:00"}}}, None),
        ({"metadata": {"annotations": {
            "tidemill/maintenance": "2026-11-17T08:00:00Z/2026-11-17T10:00:00Z"}}},
         NodeNotice(Why.MAINTENANCE, "tidemill/maintenance", 1_794_902_400_000,
                    until_ms=1_794_909_600_000)),
        ({"metadata": {"labels": {"cloud.google.com/scheduled-maintenance-time": "1794902400"}}},
         NodeNotice(Why.MAINTENANCE, "cloud.google.com/scheduled-maintenance-time",
                    1_794_902_400_000)),
        ({"spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn",
                               "effect": "NoSchedule", "timeAdded": "2026-11-17T08:00:00Z"}]}},
         NodeNotice(Why.SPOT_RECLAIM, "aws-node-termination-handler/spot-itn", 1_794_902_520_000,
                    1_794_902_400_000)),
        ({"spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn",
                               "effect": "NoSchedule"}]}},
         NodeNotice(Why.SPOT_RECLAIM, "aws-node-termination-handler/spot-itn", length_ms=120_000)),
        ({"metadata": {"annotations": {"tidemill/drain-by": "2026-11-17T08:00:00Z"}},
          "spec": {"taints": [{"key": "cloud.google.com/impending-node-termination"}]}},
         NodeNotice(Why.SPOT_RECLAIM, "cloud.google.com/impending-node-termination",
                    length_ms=30_000)),
        ({"metadata": {"annotations": {
            "tidemill/cordoned": "aws-node-termination-handler/scheduled-maintenance"}},
          "spec": {"taints": [{"key": "aws-node-termination-handler/scheduled-maintenance"},
                              {"key": "node.kubernetes.io/unschedulable",
                               "timeAdded": "2026-11-17T08:00:00Z"}]}},
         NodeNotice(Why.MAINTENANCE, "aws-node-termination-handler/scheduled-maintenance", None,
                    1_794_902_400_000)),
        ({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}, None),
        ({"spec": {"taints": [{"key": "kubernetes.azure.com/scalesetpriority", "value": "spot",
                               "effect": "NoSchedule"}]}}, None),
    ],
)  # fmt: skip
def test_a_notice_is_read_from_what_people_and_clouds_write(
    told: dict[str, Any], found: NodeNotice | None
):  # fmt: skip
    """A moment, a window, seconds since 1970, or a taint after which a known time is left."""
    assert notices.of_node(told) == found


AT_EIGHT_MS = 1_794_902_400_000
FREEZE = "Freeze Scheduled: Tue, 17 Nov 2026 08:05:00 GMT"
FREEZE_AND_MOVE = f"{FREEZE}. Redeploy Scheduled: Tue, 17 Nov 2026 08:09:00 GMT"


@pytest.mark.parametrize(
    ("kind", "message", "found"),
    [
        ("VMEventScheduled", "Preempt Scheduled: Tue, 17 Nov 2026 08:00:30 GMT. More: -1.",
         (Why.SPOT_RECLAIM, AT_EIGHT_MS + 30_000)),
        ("PreemptionScheduled", "Preempt Scheduled: Tue, 17 Nov 2026 08:00:20 GMT. EventId: 4",
         (Why.SPOT_RECLAIM, AT_EIGHT_MS + 20_000)),
        ("PreemptScheduled", "Preempt Scheduled", (Why.SPOT_RECLAIM, AT_EIGHT_MS + 30_000)),
        ("PreemptScheduled", "", (Why.SPOT_RECLAIM, AT_EIGHT_MS + 30_000)),
        ("PreemptScheduled", "Preempt Scheduled: Xxx, 77 Nov 2026 08:00:20 GMT",
         (Why.SPOT_RECLAIM, AT_EIGHT_MS + 30_000)),
        ("TerminateScheduled", "", (Why.DRAINED, AT_EIGHT_MS + 300_000)),
        ("RedeployScheduled", "", (Why.MAINTENANCE, AT_EIGHT_MS + 600_000)),
        ("RebootScheduled", "Reboot Scheduled: Tue, 17 Nov 2026 08:15:00 GMT",
         (Why.MAINTENANCE, AT_EIGHT_MS + 900_000)),
        ("VMEventScheduled", FREEZE, None),
        ("FreezeScheduled", "", None),
        ("VMEventScheduled", "something that nobody knows", (Why.MAINTENANCE, None)),
        ("VMEventScheduled", FREEZE_AND_MOVE, (Why.MAINTENANCE, AT_EIGHT_MS + 540_000)),
    ],
)  # fmt: skip
def test_scheduled_events_of_azure_are_notices_by_the_conditions_of_their_node(
    kind: str, message: str, found: tuple[Why, int | None] | None
):
    """With the moment of the message, else the shortest notice of such an event after the condition
    came. A freeze takes nothing. A condition that is not so, or not known, is none.
    """
    one = {"type": kind, "status": "True", "lastTransitionTime": "2026-11-17T08:00:00Z",
           "message": message}  # fmt: skip
    told = None if found is None else NodeNotice(found[0], kind, found[1], AT_EIGHT_MS)
    assert notices.of_node({"status": {"conditions": [one]}}) == told
    for status in ("False", "Unknown"):
        assert notices.of_node({"status": {"conditions": [one | {"status": status}]}}) is None


def test_a_condition_that_does_not_say_since_when_counts_from_when_it_was_seen():
    """Half a minute for a spot machine."""
    one = {"type": "PreemptScheduled", "status": "True"}
    told = NodeNotice(Why.SPOT_RECLAIM, "PreemptScheduled", length_ms=30_000)
    assert notices.of_node({"status": {"conditions": [one]}}) == told


class Hands:
    """A clock that stands until somebody moves it."""

    now = 1_000_000_000_000

    def now_ms(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("notice_s", "is_restarted", "lead_s"), [(69, False, 34.5), (600, False, 60), (50, True, 60)]
)
def test_the_last_leave_a_minute_before_or_after_half_of_a_shorter_notice(
    notice_s: int, is_restarted: bool, lead_s: float
):
    """Whoever began after the notice came knows by its cordon that the notice is older."""
    clock, view = Hands(), ClusterView("tidemill")
    told = made.node("n0", unschedulable=True)
    by = datetime.fromtimestamp(clock.now / 1000 + notice_s, UTC)
    told["metadata"]["annotations"] = {notices.DRAIN_BY: by.isoformat()}
    if is_restarted:
        told["metadata"]["annotations"][notices.CORDONED] = notices.DRAIN_BY
    view.take(ServedKind("", "v1", "Node", "nodes"), ("", "n0"), nodes.read(told), False)
    drains = Drains(
        World(), view, None, clock, 0, may_evict=lambda _: True, log=lambda *_, **__: None,  # type: ignore[arg-type]
    )  # fmt: skip
    drains.drain_ms = 3_600_000
    deadline_ms, due_ms = clock.now + 1000 * notice_s, None
    while due_ms is None and clock.now < deadline_ms:
        view.dirty_nodes.clear()
        drains.look()
        is_first = clock.now == Hands.now and not is_restarted
        due_ms = clock.now if view.dirty_nodes and not is_first else None
        clock.now += 500
    assert due_ms is not None
    assert due_ms == max(deadline_ms - 1000 * lead_s, Hands.now)


def test_whoever_is_known_to_be_ours_after_its_node_is_asked_to_leave_once():
    """A scheduler that is started again within a notice reads nodes before it knows its jobs."""
    clock, view, ours = Hands(), ClusterView("tidemill"), set[int]()
    world = fleet(nodes=1)
    submit(world, job("t", gpus=8))
    beat(world)
    name = world.node_rows[0].name
    told = made.node(name, unschedulable=True)
    by = datetime.fromtimestamp(clock.now / 1000 + 2, UTC)
    told["metadata"]["annotations"] = {notices.DRAIN_BY: by.isoformat(),
                                       notices.CORDONED: notices.DRAIN_BY}  # fmt: skip
    seen = nodes.read(told)
    view.take(ServedKind("", "v1", "Node", "nodes"), ("", name), seen, False)
    drains = Drains(
        world, view, None, clock, clock.now, may_evict=ours.__contains__, log=lambda *_, **__: None,  # type: ignore[arg-type]
    )  # fmt: skip
    drains.drain_ms = 3_600_000

    def asked() -> list[ev.AskedEvict]:
        view.dirty_nodes.clear()
        drains.look()
        told = [*drains.tell(world.now_ms, 0, seen)] if view.dirty_nodes else []
        return [one for one in told if isinstance(one, ev.AskedEvict)]

    assert asked() == []
    ours.add(0)
    (one,) = asked()
    assert (one.job, one.why) == (0, Why.DRAINED)
    assert asked() == []  # one that a budget keeps is not asked with every look


@pytest.mark.parametrize(
    ("key", "after_s"),
    [
        ("aws-node-termination-handler/spot-itn", 60),
        ("cloud.google.com/impending-node-termination", 15),
        ("aws-node-termination-handler/scheduled-maintenance", 3540),
    ],
)
def test_a_taint_that_does_not_say_since_when_it_is_there_counts_from_when_it_was_seen(
    key: str, after_s: int
):
    """The time that is left begins once: it does not move on with the clock."""
    clock, view = Hands(), ClusterView("tidemill")
    told = made.node("n0", unschedulable=True)
    told["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
    view.take(ServedKind("", "v1", "Node", "nodes"), ("", "n0"), nodes.read(told), False)
    drains = Drains(
        World(), view, None, clock, 0, may_evict=lambda _: True, log=lambda *_, **__: None,  # type: ignore[arg-type]
    )  # fmt: skip
    drains.drain_ms = 3_600_000
    drains.look()
    view.dirty_nodes.clear()
    clock.now += 1000 * after_s - 1
    drains.look()
    assert not view.dirty_nodes
    clock.now += 1
    drains.look()
    assert [*view.dirty_nodes] == ["n0"]


class Server:
    """Refuses to cordon until somebody gives the right; ``asked``: how often."""

    is_allowed, asked = False, 0

    async def send(self, *_: object) -> Written:
        self.asked += 1
        return Written(200, b"{}") if self.is_allowed else Written(403, b'{"message": "not you"}')


def test_a_cordon_that_is_refused_is_asked_for_again_until_the_right_is_given():
    """At growing pauses; the log says once what was refused, and which file gives the right."""
    clock, view, server = Hands(), ClusterView("tidemill"), Server()
    said = list[dict[str, Any]]()
    told = made.node("n0")
    told["metadata"]["annotations"] = {notices.DRAIN_BY: "2001-09-09T02:00:00Z"}
    view.take(ServedKind("", "v1", "Node", "nodes"), ("", "n0"), nodes.read(told), False)
    drains = Drains(
        World(), view, server, clock, 0, may_evict=lambda _: True,  # type: ignore[arg-type]
        log=lambda event, **rest: said.append({"event": event, **rest}),
    )  # fmt: skip
    drains.drain_ms = 3_600_000

    async def look(times: int) -> None:
        for _ in range(times):
            drains.look()
            for _ in range(3):
                await asyncio.sleep(0)
            clock.now += 1000

    asyncio.run(look(60))
    assert server.asked == 5  # after 2, 4, 8, 16 s, and at first
    (one,) = said
    assert one["event"] == "cordon refused"
    assert "deploy/kubernetes/drain.yaml" in one["hint"]
    assert 'resources: ["nodes"], verbs: ["patch"]' in one["missing_rule"]
    server.is_allowed = True
    asyncio.run(look(60))
    assert drains.cordoned > 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (notices.DRAIN_BY, "2026-11-17T08:00:00"),
        (notices.MAINTENANCE, "tonight"),
        (notices.MAINTENANCE, "2026-11-17T08:00:00Z/10:00"),
    ],
)
def test_an_annotation_that_cannot_be_read_as_a_notice_is_told_once(key: str, value: str):
    """Whoever wrote it would wait for a drain that never comes."""
    view, said = ClusterView("tidemill"), list[dict[str, Any]]()
    told = made.node("n0")
    told["metadata"]["annotations"] = {key: value}
    view.take(ServedKind("", "v1", "Node", "nodes"), ("", "n0"), nodes.read(told), False)
    drains = Drains(
        World(), view, None, Hands(), 0, may_evict=lambda _: True,  # type: ignore[arg-type]
        log=lambda event, **rest: said.append({"event": event, **rest}),
    )  # fmt: skip
    drains.look()
    drains.look()
    (one,) = said
    assert one["event"] == "notice cannot be read"
    assert (one["annotation"], one["found"]) == (key, value)
