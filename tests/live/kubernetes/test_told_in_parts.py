"""Objects of a cluster told in parts, by observers that are killed, as if told at once."""

from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from tests.ledger.sums import without_causes
from tests.live.history.test_advance import Observer, jobs_of, named
from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod, taken, template
from tidemill import explain
from tidemill.explain import inventory
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes.translate import translate
from tidemill.model import events as ev
from tidemill.model.events import Event
from tidemill.model.policy import Policy

LATENESS_S = 15
NODES = 3


class Life(NamedTuple):
    """One pod of a gang; times are seconds."""

    job: str
    number: int
    turn: int
    on: str
    created: int
    bound: int
    up: int
    end: int
    phase: str

    def shown(self, now: int) -> Object:
        """As the API shows it at a moment."""
        name, of = f"{self.job}-{self.number}-{self.turn}", ("batch/v1", "Job", self.job)
        told: dict[str, Any] = {"owner": of, "spec": {"subdomain": self.job}}
        told["labels"] = {"batch.kubernetes.io/job-completion-index": str(self.number)}
        if self.bound > now:
            return pod(name, 4, created=self.created, **told)
        held: dict[str, Any] = {"on": self.on, "created": self.created, "bound": self.bound}
        if max(self.up, self.bound) > now:
            return pod(name, 4, **held, up=-1, phase="Pending", **told)
        is_over = self.end <= now
        end: dict[str, Any] = {"end": self.end, "phase": self.phase} if is_over else {}
        return pod(name, 4, **held, up=self.up, **end, **told)


def a_job(name: str, size: int, created: int, ended: int | None, how: str) -> Object:
    """A Job all of whose pods call each other by name, and so are one gang."""
    spec = {"completionMode": "Indexed", "parallelism": size, "completions": size,
            "template": template(4, subdomain=name)}  # fmt: skip
    condition = {"type": how, "status": "True"}
    if ended is not None:
        condition["lastTransitionTime"] = made.moment(ended)
    status = {"conditions": [condition]} if ended is not None else {}
    return made.owner("batch/v1", "Job", name, spec, created=created, status=status)


class Gang(NamedTuple):
    """A Job and its pods."""

    name: str
    size: int
    created: int
    pods: list[Life]
    delay: int = 0
    """So long after its last pod it is said to be over."""

    def shown(self, now: int) -> list[Object]:
        """What exists of it at a moment."""
        if self.created > now:
            return []
        over = max(life.end for life in self.pods) + self.delay
        how = "Failed" if any(one.phase == "Failed" for one in self.pods[-1:]) else "Complete"
        job = a_job(self.name, self.size, self.created, over if over <= now else None, how)
        return [job, *(life.shown(now) for life in self.pods if life.created <= now)]


def a_story(luck: Random) -> list[Gang]:
    """Gangs on few GPUs: many come in parts, of which some end well before the rest is there."""
    free = {f"n{i}": [0, 0] for i in range(NODES)}  # since when each half of a node is
    found = list[Gang]()
    for i in range(12):
        name, size, at = f"g{i}", luck.choice((1, 2, 2, 3)), 10 * luck.randrange(6)
        pods = list[Life]()
        for index in range(size):
            created, ends = at, ["Failed"] * luck.choice((0, 0, 0, 1)) + ["Succeeded"]
            for turn, phase in enumerate(ends):
                on = luck.choice(sorted(free))
                half = min((0, 1), key=lambda one: free[on][one])
                bound = max(created, free[on][half]) + luck.randrange(8)
                up = bound + luck.randrange(5)
                end = up + luck.choice((0, *range(1, 120, 9)))
                free[on][half] = end
                pods.append(Life(name, index, turn, on, created, bound, up, end, phase))
                created = end + luck.choice((0, 10, 40))
        if luck.random() < 0.2:  # its last pod fails, and a deadline passes before the next
            pods[-1] = pods[-1]._replace(phase="Failed")
            found.append(Gang(name, size, at, pods, luck.choice((0, 60))))
            continue
        found.append(Gang(name, size, at, pods))
    return found


def answer(gangs: list[Gang], now: int) -> SourceAnswer:
    """What an observer makes of what the cluster shows."""
    objects = [one for gang in gangs for one in gang.shown(now)]
    nodes = [node(f"n{i}", at=now) for i in range(NODES)]
    past = translate(taken(*nodes, *objects), looks_back=False)
    assert not past.refusals
    return SourceAnswer(past.attempts, past.nodes, 0, shapes=past.shapes)


def told(observer: Observer) -> list[Event]:
    """Events, but why jobs wait: that is said of the moment of each answer."""
    events = jobs_of(observer.journal.read())
    return [event for event in events if not isinstance(event, ev.ReasonSeen)]


@pytest.mark.parametrize("seed", range(6))
def test_gangs_of_a_cluster_told_in_parts_are_those_told_at_once(seed: int):
    """Observers killed 30 times: whatever of a gang came when, and whoever of it ended well alone.

    An observer that was never killed and asked once tells the same events and amounts.
    """
    luck = Random(seed)
    gangs = a_story(luck)
    end = max(life.end + gang.delay for gang in gangs for life in gang.pods) + 5
    once = Observer(BEGIN_MS)
    once.take(answer(gangs, end + LATENESS_S), BEGIN_MS + 1000 * end)
    observer, kills, now = Observer(BEGIN_MS), 0, 0
    while observer.world.now_ms < 1000 * end:
        now += luck.randrange(1, max(2, end // 30))
        until_ms = BEGIN_MS + 1000 * min(end, now - LATENESS_S)
        if until_ms <= BEGIN_MS + observer.world.now_ms:
            continue
        is_killed = kills < 30
        observer.take(answer(gangs, now), until_ms, luck.randrange(3) if is_killed else 9)
        observer.restart()
        kills += is_killed
    assert +observer.late == {}
    assert told(observer) == told(once)
    for by in (("bucket",), ("bucket", "team", "job")):
        seen, at_once = (named(one.books(), *by) for one in (observer, once))
        assert without_causes(seen) == without_causes(at_once)


def test_who_ends_well_alone_is_at_work_since_then_to_an_observer_and_from_the_start_to_an_import():
    """One of two pods runs for a minute alone and ends well: only who looks back knew it all along.

    The second runs for a minute after it: that it works is known by then.
    """
    first = Life("g", 0, 0, "n0", 0, 30, 30, 90, "Succeeded")
    gang = Gang("g", 2, 0, [first, Life("g", 1, 0, "n0", 0, 100, 100, 160, "Succeeded")])
    objects = [node(f"n{i}", at=200) for i in range(NODES)] + gang.shown(200)
    found = {}
    for looks_back in (True, False):
        past = translate(taken(*objects), looks_back=looks_back)
        observer = Observer(BEGIN_MS)
        shown = SourceAnswer(past.attempts, past.nodes, 0, shapes=past.shapes)
        observer.take(shown, BEGIN_MS + 200_000)
        sums = named(observer.books(), "bucket")
        found[looks_back] = sums.get((Bucket.STARTING,), 0) // 4000
    assert found == {True: 0, False: 59_999}


PRODUCT = "nvidia.com/gpu.product"
POOL = "feature.node.kubernetes.io/pool"


def shown(now: int, *objects: Object, **labels: str) -> SourceAnswer:
    """Three nodes with these labels, and pods."""
    nodes = [node(f"n{i}", at=now, labels=labels) for i in range(NODES)]
    past = translate(taken(*nodes, *objects), looks_back=False)
    return SourceAnswer(past.attempts, past.nodes, 0, shapes=past.shapes)


def causes(observer: Observer) -> dict[str, str]:
    """Why jobs wait."""
    world = observer.world
    return {world.job_names[j]: explain.why(world, Policy(), j).cause
            for jobs in world.waiting for j in jobs}  # fmt: skip


@pytest.mark.parametrize("label", [PRODUCT, POOL])
def test_a_label_that_is_first_selected_later_is_known_as_if_told_at_once(label: str):
    """Nodes were seen before any pod selected by it; all are free then, and one pod runs after."""
    first = pod("first", 2, on="n0", created=30)
    selector = {"nodeSelector": {label: "here"}}
    waits = pod("waits", 8, created=60, spec=selector)
    steps, once = Observer(BEGIN_MS), Observer(BEGIN_MS)
    steps.take(shown(10, **{label: "here"}), BEGIN_MS + 10_000)
    steps.restart()
    for now, pods in ((70, (waits,)), (90, (first, waits))):
        steps.take(shown(now, *pods, **{label: "here"}), BEGIN_MS + now * 1000)
    once.take(shown(90, first, waits, **{label: "here"}), BEGIN_MS + 90_000)
    assert causes(steps) == causes(once) == {"ml/waits": "none"}


def test_an_observer_that_goes_on_with_a_journal_without_labels_tells_them_when_nodes_are_free():
    """The journal of an older version has only labels that were selected when it began."""
    busy, waits = pod("busy", 8, on="n0"), pod("waits", 8, created=60, spec={
        "nodeSelector": {PRODUCT: "here"}})  # fmt: skip
    seen = shown(50, busy, **{PRODUCT: "here"})
    bare = [replace(one, labels=()) for one in seen.nodes]
    observer = Observer(BEGIN_MS)
    observer.take(seen._replace(nodes=bare), BEGIN_MS + 50_000)
    observer.restart()
    observer.take(shown(70, busy, waits, **{PRODUCT: "here"}), BEGIN_MS + 70_000)
    world = observer.world
    labelled = {row.name for row in world.node_rows if (PRODUCT, "here") in row.labels}
    assert labelled == {"n1#2", "n2#2"}
    assert [row.node for row in inventory.nodes(world)] == ["n0", "n1", "n2"], "as people know them"
    assert causes(observer) == {"ml/waits": "none"}
    busy = pod("busy", 8, on="n0", end=80)
    observer.take(shown(90, busy, waits, **{PRODUCT: "here"}), BEGIN_MS + 90_000)
    observer.take(shown(95, busy, waits, **{PRODUCT: "here"}), BEGIN_MS + 95_000)
    assert "n0#2" in world.node_number
