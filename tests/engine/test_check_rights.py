"""The plan checker on rights to stop others, against the rule in plain Python, on random fleets."""

from collections import Counter
from random import Random

from tests.builders import fleet, job, place, queue, start, submit
from tidemill.engine.check import violations
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.world import World

ANY_TIME = Policy(min_run_ms=0, evictions_at_most=99)
NO_CLAIM, NOT_HIGHER = "yields to another team without a claim", "is not higher"


def crowded(luck: Random) -> World:
    """Teams in a tree of two or three levels with some guaranteed quotas; one node for each job."""
    floors = iter(luck.choices([0, 8, 16, 24], k=9))
    teams = [queue("x", floor=next(floors)), queue("y", floor=next(floors))]
    if luck.random() < 0.5:
        teams.append(queue("z", floor=next(floors), parent="y"))
    below = teams[-1].name
    teams += [queue(name, floor=next(floors), parent="x") for name in "ab"]
    teams += [queue(name, floor=next(floors), parent=below) for name in "cd"]
    teams.append(queue("e", floor=next(floors)))
    world = fleet(nodes=8, teams=teams)
    for n in range(8):
        submit(world, job(f"r{n}", gpus=8, team=luck.choice("abcde"), priority=luck.randint(0, 1)))
        place(world, f"r{n}", Piece(0, n, 1, 255))
        start(world, f"r{n}")
    for i in range(4):
        team, priority = luck.choice("abcde"), luck.randint(0, 2)
        submit(world, job(f"w{i}", gpus=luck.choice([1, 8]), team=team, priority=priority))
    return world


def line(world: World, name: str) -> list[str]:
    """A queue and all that is above it."""
    found, above = [name], {row.name: row.parent for row in world.queue_rows}
    while above[found[-1]]:
        found.append(above[found[-1]])
    return found


def is_right(world: World, gone: Counter[str], victim: int, heir: int) -> bool:
    """Whether a job may be stopped for another when this much was taken from queues before."""
    mine, theirs = world.shape_of(victim), world.shape_of(heir)
    if mine.team == theirs.team:
        return mine.priority < theirs.priority
    met = {*line(world, mine.team)} & {*line(world, theirs.team)}
    used = {row.name: int(world.used[q, 0]) for q, row in enumerate(world.queue_rows)}
    sure = {row.name: int(world.floor[q, 0]) for q, row in enumerate(world.queue_rows)}
    branch = [name for name in line(world, theirs.team) if name not in met][-1]
    is_owed = used[branch] + theirs.total_milli <= sure[branch]
    return is_owed and all(
        used[name] - gone[name] > sure[name] for name in line(world, mine.team) if name not in met
    )


def test_rights_are_as_said_in_plain_python():
    """Whoever is stopped, for whomever, and after whomever: the same are without a right."""
    counts = Counter[str]()
    for seed in range(300):
        luck = Random(seed)
        world, gone, wrong, plan = crowded(luck), Counter[str](), [], []
        for victim in luck.sample(range(8), luck.randint(1, 4)):
            heir = luck.randrange(8, 12)
            mine, theirs = world.shape_of(victim), world.shape_of(heir)
            is_own = mine.team == theirs.team
            why = ev.Why.PREEMPTED if is_own else ev.Why.RECLAIMED
            plan.append(ev.AskedEvict(world.now_ms, victim, 1, why, heir))
            if not is_right(world, gone, victim, heir):
                wrong.append(NOT_HIGHER if is_own else NO_CLAIM)
            counts[f"{is_own} {is_right(world, gone, victim, heir)}"] += 1
            for name in line(world, mine.team):
                gone[name] += mine.total_milli
        found = violations(world, ev.Plan(tuple(plan)), ANY_TIME)
        assert [text for text in found if "yields" in text] == found
        assert sorted(wrong) == sorted(
            NOT_HIGHER if NOT_HIGHER in text else NO_CLAIM for text in found
        ), f"seed {seed}"
        again = violations(world, ev.Plan(tuple(plan)), ANY_TIME)
        assert again == found, "what a plan takes is forgotten after it"
    assert min(counts.values()) > 10
    assert len(counts) == 4
