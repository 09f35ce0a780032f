"""Gangs that grow pod by pod, told in parts by observers that are killed, as if told at once."""

from collections import Counter
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.live.history.test_advance import LATENESS_MS, Observer, jobs_of, named, nodes_as_of
from tests.live.history.test_history import EPOCH_MS, NODES, PRICES, attempts, read
from tidemill.journal.memory import MemoryJournal
from tidemill.ledger.buckets import ALLOCATED
from tidemill.live.history import fitting
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.events import build
from tidemill.live.history.rows import NEVER_UP_MS, SeenNode
from tidemill.model.rows import Queue, Role, Shape
from tidemill.model.states import JobState, NodeState

Row = dict[str, Any]
GROUPS = (
    (Role("worker", 4, 2),),
    (Role("leader", 1, 1), Role("worker", 3, 2)),
    (Role("share", 3, 1, 250), Role("trainer", 2, 4)),
    (Role("instance", 2, 1, 125, profile="1g.10gb", kinds=("H100",)),),
)


class Pod(NamedTuple):
    """One pod of a gang; times after the epoch."""

    role: int
    node: str
    bound: int
    up: int | None
    end: int
    life: int
    """Which time the gang is there: pods of one life overlap."""


class Gang(NamedTuple):
    """A job of pods."""

    name: str
    shape: int
    submit: int
    least: int
    pods: list[Pod]
    ends: list[str]
    """How each life ended."""

    @property
    def over(self) -> int:
        return max(pod.end for pod in self.pods)


def a_gang(i: int, luck: Random, free: dict[str, list[int]]) -> Gang:
    """Pods that come one after the other, of which some are lost and replaced."""
    s, at = luck.randrange(len(GROUPS)), 10 * luck.randrange(60)
    roles, submit = GROUPS[s], at
    pods, ends = list[Pod](), list[str]()
    for life in range(luck.choice((1, 1, 2))):
        some, end = list[Pod](), 0
        lasts, is_together = 10 * luck.randrange(5, 30), luck.random() < 0.6
        for r, role in enumerate(roles):
            for _ in range(luck.randrange(role.count) + 1):
                node, need = luck.choice(sorted(free)), role.accelerators
                bound = max(at, sorted(free[node])[need - 1]) + 10 * luck.randrange(3)
                if some and bound >= end:
                    continue  # too late for this life
                end = end or bound + lasts
                stop = end if is_together else max(bound + 10, end - 10 * luck.randrange(4))
                up = bound + 5 * luck.randrange(6)
                some.append(Pod(r, node, bound, up if up < stop else None, stop, life))
                taken = sorted(free[node])
                free[node] = [stop if d < need else ms for d, ms in enumerate(taken)]
        pods += some
        ends.append(luck.choice(("failed", "preempted", "requeued", "node lost")))
        at = max(pod.end for pod in some) + 10 * luck.randrange(3)
    ends[-1] = luck.choice(("done", "failed", "cancelled", "timed out"))
    least = luck.randrange(1, len([pod for pod in pods if not pod.life]) + 1)
    gang = Gang(f"g{i}", s, submit, least, pods, ends)
    is_at_work = stretches(gang, gang.over)[-1]["up_ms"] < NEVER_UP_MS
    return gang if is_at_work else gang._replace(ends=[*ends[:-1], "failed"])


def stretches(gang: Gang, now: int) -> list[Row]:
    """What a gang holds from moment to moment, as it is known at one; counted by hand."""
    known = [pod for pod in gang.pods if pod.bound <= now]
    moments = sorted({pod.bound for pod in known} | {pod.end for pod in known if pod.end <= now})
    found = list[Row]()
    for i, start in enumerate(moments):
        here = [pod for pod in known if pod.bound <= start < pod.end]
        if not here:
            continue
        end = moments[i + 1] if i + 1 < len(moments) else None
        goes_on = end is not None and any(pod.end > end for pod in here)
        outcome = "running" if end is None else "changed" if goes_on else gang.ends[here[0].life]
        ups = sorted(pod.up for pod in here if pod.up is not None and pod.up <= now)
        up = max(start, ups[gang.least - 1]) if len(ups) >= gang.least else None
        is_up = up is not None and (end is None or up < end)
        roles = GROUPS[gang.shape]
        milli = sum(roles[pod.role].replica_milli for pod in here)
        found.append({
            "job": gang.name, "team": "a", "submit_ms": gang.submit, "start_ms": start,
            "end_ms": end, "up_ms": EPOCH_MS + up if is_up and up is not None else NEVER_UP_MS,
            "outcome": outcome, "shape": gang.shape, "gpus": max(1, -(-milli // 1000)),
            "nodes": [pod.node for pod in here], "roles": [pod.role for pod in here],
        })  # fmt: skip
    return found


def shown(gangs: list[Gang], now: int, since: int) -> list[Row]:
    """What a cluster shows at a moment of what went on since another one."""
    found = list[Row]()
    for gang in gangs:
        if gang.submit > now:
            continue
        rows = stretches(gang, now)
        if gang.over > now and (not rows or rows[-1]["end_ms"] is not None):
            milli = sum(role.total_milli for role in GROUPS[gang.shape])
            waits = {"submit_ms": gang.submit, "outcome": "waiting", "shape": gang.shape}
            rows.append({"job": gang.name, "team": "a", "gpus": -(-milli // 1000)} | waits)
        found += [row for row in rows if row.get("end_ms") is None or row["end_ms"] > since]
    return found


def shapes() -> list[Shape]:
    return [Shape("a", roles) for roles in GROUPS]


def a_story(seed: int, *, is_crowded: bool = False) -> tuple[list[Gang], list[SeenNode]]:
    """Gangs on nodes that are out now and then; crowded: on devices that others hold as well."""
    luck = Random(seed)
    free = {node.name: [0] * 8 for node in NODES}
    gangs = list[Gang]()
    for i in range(20):
        room = {name: [0] * 8 for name in free} if is_crowded and i % 4 == 0 else free
        gangs.append(a_gang(i, luck, room))
    nodes = list[SeenNode]()
    for node in NODES:
        at = 10 * luck.randrange(1, 40)
        out = ((EPOCH_MS + at, EPOCH_MS + at + 10 * luck.randrange(1, 20), NodeState.UNHEALTHY),)
        nodes.append(SeenNode(name=node.name, gpus=8, gpu_type="h100", out=out))
    return gangs, nodes


@pytest.mark.parametrize("brief_ms", [0, LATENESS_MS])
@pytest.mark.parametrize("seed", range(6))
def test_gangs_in_parts_are_the_gangs_at_once(seed: int, brief_ms: int, monkeypatch):
    """Observers killed 30 times: every placement, start and end as one import tells them.

    Odd seeds: of some pods others hold the devices; for so long after their start they take what
    those leave (``BRIEF_MS``), as long as the observer is behind.
    """
    monkeypatch.setattr(fitting, "BRIEF_MS", brief_ms)
    gangs, nodes = a_story(seed, is_crowded=bool(seed % 2))
    luck, end = Random(seed), max(gang.over for gang in gangs) + 5
    rows = attempts(*shown(gangs, end, -1))
    whole = build(rows, nodes, PRICES, EPOCH_MS, EPOCH_MS + end, shapes=shapes())
    kept = MemoryJournal()
    for batch in whole.batches():
        kept.append_batch(batch)
    assert (whole.over > 0) == bool(seed % 2)
    observer, kills, now = Observer(), 0, 0
    while kills < 30 or observer.world.now_ms < end:
        now += luck.randrange(1, max(2, end // 25))
        mark = observer.world.now_ms
        answer = SourceAnswer(
            attempts(*shown(gangs, now, mark - 50)), nodes_as_of(nodes, EPOCH_MS + now),
            EPOCH_MS + now, shapes=shapes(),
        )  # fmt: skip
        until = min(end, now - LATENESS_MS)
        is_killed = kills < 30
        if until > mark or (is_killed and now > 2 * end):
            at_ms = EPOCH_MS + max(until, mark)
            observer.take(answer, at_ms, luck.randrange(3) if is_killed else 9)
            observer.restart()
            kills += is_killed
    assert +observer.late == {}
    assert jobs_of(observer.journal.read()) == jobs_of(kept.read())
    at_once = read(build(rows, nodes, PRICES, EPOCH_MS, EPOCH_MS + end, shapes=shapes()))
    for by in (("bucket",), ("bucket", "team", "job")):
        assert named(observer.books(), *by) == named(at_once, *by)


HELD = {"job": "g", "shape": 0, "start_ms": 10, "up_ms": NEVER_UP_MS, "gpus": 2}
ONE_POD = HELD | {"nodes": ["n0"], "roles": [0]}
TWO_PODS = HELD | {"nodes": ["n0", "n1"], "roles": [0, 0], "gpus": 4}


def up_to(
    observer: Observer, ms: int, *rows: Row, nodes: list[SeenNode] = NODES, **more: Any
) -> Counter[str]:
    """Show rows, tell the journal up to a moment; what was late in it."""
    observer.late.clear()
    told = {"shapes": shapes()} | more
    observer.take(SourceAnswer(attempts(*rows), nodes, 0, **told), EPOCH_MS + ms)
    observer.restart()
    return +observer.late


def held_by_job(observer: Observer) -> dict[str, int]:
    """GPU-milliseconds that each job held, with paid = Σ buckets on the way."""
    books, found = observer.books(), Counter[str]()
    sums = named(books, "bucket", "job")
    assert sum(sums.values()) == books.total().paid_milli_ms
    for (bucket, j), milli_ms in sums.items():
        if bucket in ALLOCATED and isinstance(j, int):
            found[observer.world.job_names[j]] += milli_ms // 1000
    return found


def test_a_pod_that_comes_to_light_late_is_held_from_the_watermark():
    """Bound at 30, shown after 50 was told: no hour of it is booked into the past; said once."""
    observer = Observer()
    up_to(observer, 50, ONE_POD)
    rows = (
        ONE_POD | {"end_ms": 30, "outcome": "changed"},
        TWO_PODS | {"start_ms": 30, "up_ms": EPOCH_MS + 40},
    )
    assert up_to(observer, 80, *rows) == {"changes": 1, "gpu_ms": 2 * 20}
    assert up_to(observer, 100, *rows) == {}
    assert (observer.world.jobs.attempt[0], observer.world.jobs.state[0]) == (1, JobState.RUNNING)
    assert held_by_job(observer) == {"g": 2 * 40 + 4 * 50}


def test_a_pod_that_nobody_shows_any_more_is_held_until_the_watermark():
    """Deleted while nobody looked: what is left goes on, as its next attempt since it worked."""
    observer = Observer()
    up_to(observer, 50, TWO_PODS | {"up_ms": EPOCH_MS + 20})
    rest = ONE_POD | {"nodes": ["n1"], "start_ms": 15, "up_ms": EPOCH_MS + 20}
    assert up_to(observer, 80, rest)["changes"] == 1
    assert up_to(observer, 90, rest) == {}
    assert observer.world.jobs.attempt[0] == 2
    assert held_by_job(observer) == {"g": 4 * 40 + 2 * 40}


def test_pods_that_all_vanished_ended_unseen_and_the_next_are_another_attempt():
    """All of its pods were replaced after the watermark, on the same node as well."""
    observer = Observer()
    up_to(observer, 50, TWO_PODS | {"up_ms": EPOCH_MS + 20})
    assert up_to(observer, 80, TWO_PODS | {"start_ms": 60, "up_ms": EPOCH_MS + 60}) == {"unseen": 1}
    assert (observer.world.job_count, observer.world.jobs.attempt[0]) == (1, 2)
    assert held_by_job(observer) == {"g": 4 * 40 + 4 * 20}


def test_a_gang_that_ended_before_it_was_told_to_have_come_up_is_over_at_the_watermark():
    """Up at 30, done at 45, both shown after 50: it has worked, and ended; told once."""
    observer = Observer()
    up_to(observer, 50, TWO_PODS)
    over = TWO_PODS | {"up_ms": EPOCH_MS + 30, "end_ms": 45, "outcome": "done"}
    assert up_to(observer, 80, over) == {"ends": 1, "gpu_ms": 4 * 5}
    assert up_to(observer, 90, over) == {}
    assert observer.world.jobs.state[0] == JobState.DONE
    assert held_by_job(observer) == {"g": 4 * 40}


def test_a_gang_first_seen_when_it_has_changed_already_is_held_as_it_is():
    """Its earlier pods lie before the watermark: counted as late, and never booked."""
    observer = Observer()
    up_to(observer, 50)
    rows = (
        ONE_POD | {"end_ms": 30, "outcome": "changed"},
        TWO_PODS | {"start_ms": 30, "end_ms": 60, "outcome": "changed"},
        ONE_POD | {"start_ms": 60},
    )
    assert up_to(observer, 80, *rows) == {"starts": 1, "gpu_ms": 2 * 20 + 4 * 20}
    assert held_by_job(observer) == {"g": 4 * 10 + 2 * 20}


def test_a_job_in_other_roles_than_it_was_told_has_another_life():
    """It was told to be of four workers, and is a leader with workers: no GPU of it is lost."""
    observer = Observer()
    up_to(observer, 50, ONE_POD)
    other = TWO_PODS | {"shape": 1, "roles": [0, 1], "gpus": 3}
    assert up_to(observer, 80, other)["again"] == 1
    assert up_to(observer, 90, other) == {}
    assert held_by_job(observer) == {"g": 2 * 40, "g#2": 3 * 40}


def test_a_held_gang_that_may_run_later_keeps_its_roles():
    """Of a job that was not eligible the first role was told under another name."""
    observer = Observer()
    waits = {"job": "g", "shape": 1, "gpus": 7, "is_eligible": False}
    up_to(observer, 50, waits)
    rows = {"shape": 1, "roles": [0, 1], "nodes": ["n0", "n1"], "gpus": 3, "start_ms": 60}
    assert up_to(observer, 80, HELD | rows) == {}
    assert held_by_job(observer) == {"g": 3 * 20}


def test_teams_with_quotas_are_told_when_they_are_new_or_changed():
    """The second answer repeats one and changes the other."""
    observer, first, second = Observer(), Queue("lab"), Queue("a", parent="lab", weight=2)
    up_to(observer, 50, ONE_POD, queues=[first, second])
    count = len(list(observer.journal.read()))
    up_to(observer, 60, ONE_POD, queues=[first, second])
    assert len(list(observer.journal.read())) == count + 1  # woke
    up_to(observer, 70, ONE_POD, queues=[first, Queue("a", parent="lab", weight=3)])
    assert observer.world.queue_rows == [first, Queue("a", parent="lab", weight=3)]


@pytest.mark.parametrize("steps", [(200,), (50, 90, 200), (100, 101, 200), (99, 200)])
def test_a_node_that_says_when_it_joined_is_paid_from_then_on(steps: tuple[int, ...]):
    """In however many parts it is told, and whether work began on it at once or later."""
    late = SeenNode(name="new", gpus=8, gpu_type="h100", since_ms=EPOCH_MS + 100)
    nodes, row = [*NODES, late], ONE_POD | {"nodes": ["new"], "start_ms": 130}
    observer = Observer()
    for ms in steps:
        there = nodes if ms >= 100 else NODES
        up_to(observer, ms, *([row] if ms >= 130 else []), nodes=there)
    whole = build(attempts(row), nodes, PRICES, EPOCH_MS, EPOCH_MS + 200, shapes=shapes())
    paid = read(whole).total().paid_milli_ms
    assert observer.books().total().paid_milli_ms == paid == 32_000 * 200 + 8_000 * 100
    assert held_by_job(observer) == {"g": 2 * 70}
