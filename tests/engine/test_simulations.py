"""Properties of the whole loop, on stories with faults drawn from seeds.

Each story is played once; its beats (what was seen, what was planned) are then read again by every
property. A failure names the one command that plays its seed again.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tests.builders import decide, fleet, placed, submit
from tests.engine import audit
from tests.engine.stage import Beat, Player, Script, play
from tests.engine.stories import SOURCES, played, replayable, seeds, story
from tidemill.core import snapshot
from tidemill.engine.check import violations
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Queue, Share
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling.fit import fit
from tidemill.scheduling.scores.scoring import PACKING

MANY, SOME, FEW, FEWEST = 150, 75, 60, 24


@SOURCES
def test_nothing_is_ever_over_committed(source: str):
    """After every event of every story, devices, hosts, levels and teams add up."""
    for seed in seeds(FEW):
        with replayable(seed):
            world = World()
            for event in played(seed, source).kept:
                fold(world, event)
                audit.audit_devices(world)
                audit.audit_levels(world)
                audit.audit_teams(world)


@SOURCES
def test_gangs_are_whole_or_absent(source: str):
    """At every beat, a job holds all of its replicas or none of its nodes."""
    for seed in seeds(MANY):
        with replayable(seed):
            for world, _ in _beats(played(seed, source)):
                audit.audit_gangs(world)
                audit.audit_jobs(world)


@SOURCES
def test_required_bonds_are_never_broken(source: str):
    """At every beat, whatever moved or was put back, tied replicas sit in one domain."""
    tied = 0
    for seed in seeds(MANY):
        with replayable(seed):
            if not story(seed).topology.tiers:
                continue
            for world, _ in _beats(played(seed, source)):
                held = world.placements.items()
                tied += sum(bool(world.shape_of(j).bonds) for j in world.placements)
                plan = ev.Plan(ev.AskedPlace(world.now_ms, j, 1, pieces) for j, pieces in held)
                found = violations(world, plan, Policy())
                assert not [line for line in found if "is not inside one" in line]
    assert tied > 0, "no story has a tied gang: this proves nothing"


@SOURCES
def test_the_journal_rebuilds_the_world(source: str):
    """Folding the kept events again gives the same World, byte for byte."""
    for seed in seeds(MANY):
        with replayable(seed):
            player = played(seed, source)
            again = fold_all(World(), player.kept)
            assert snapshot.dump(again) == snapshot.dump(player.world)


def test_the_journal_is_the_same_for_every_batch_size():
    """How many beats go into one commit changes the commits, not the journal."""
    for seed in seeds(FEWEST):
        with replayable(seed):
            other = play(story(seed), beats_per_commit=(2, 7, 1000)[seed % 3])
            assert list(other.kept) == list(played(seed).kept)
            assert len(other.kept.commits) < len(played(seed).kept.commits)


def test_the_memo_may_be_dropped_at_any_time():
    """At a beat, a scheduler that remembers nothing places and evicts the same.

    At every beat that saw something or decided something, and at every fifth of the others, where
    a clock only ticks: those are more than half of all.
    Up to the first placement of a plan: what only that made possible (a victim that now cannot go
    elsewhere, roles that now settle otherwise) may wait for the next beat, where it is seen here
    too. And as long as no search for victims ends at its bound.
    """
    for seed in seeds(SOME):
        with replayable(seed):
            script = story(seed)
            policy = replace(script.policy, searches_per_cycle=1000, victims_at_most=1000)
            player = play(dataclasses.replace(script, policy=policy))
            for number, (world, plan) in enumerate(_beats(player)):
                if number % 5 and _only_ticked(player.beats[number]):
                    continue
                anew = cycle(world, policy, CycleMemo())
                if _moves(anew) != _moves(plan):
                    continue  # supply was looked at before its time, and evictions wait for it
                fresh, kept = _decisions(anew), _decisions(plan)
                places = [i for i, a in enumerate(fresh) if isinstance(a, ev.AskedPlace)]
                last = places[0] + 1 if places else max(len(fresh), len(kept))
                assert fresh[:last] == kept[:last], f"at {world.now_ms} ms"


@SOURCES
def test_no_plan_disturbs_what_the_next_cycle_would_put_back(source: str):
    """When all victims have left or moved and nothing else happened, none of them is put back.

    None that was evicted is placed; none that moved is moved again; none that grew is shrunk, and
    none that shrank is grown. Who was stopped only to be placed elsewhere is placed.
    """
    disturbed: Counter[ev.Why] = Counter()
    for seed in seeds(MANY):
        with replayable(seed):
            for victims, following in _aftermaths(seed, source):
                disturbed.update(victim.why for victim in victims)
                back = {(a.job, a.why) for a in following.actions if isinstance(a, ev.AskedMove)}
                for a in following.actions:
                    if isinstance(a, ev.AskedPlace):
                        back |= {(a.job, why) for why in STOPPED}
                undone = {(v.job, UNDONE_BY.get(v.why, v.why)) for v in victims}
                moved = {(v.job, v.why) for v in victims if v.why is ev.Why.REPACKED}
                assert back & undone == moved
    kinds = {ev.Why.PREEMPTED, ev.Why.RECLAIMED, ev.Why.MOVED, ev.Why.SHRUNK, ev.Why.GROWN}
    if len(seeds(MANY)) >= FEW:
        assert disturbed.keys() >= kinds, f"{disturbed}: this proves too little"


@SOURCES
def test_room_that_was_made_is_used_by_whom_it_was_made_for(source: str):
    """When all victims have left and nothing else happened, the next cycle places every heir."""
    for seed in seeds(MANY):
        with replayable(seed):
            for victims, following in _aftermaths(seed, source):
                came = {a.job for a in following.actions if isinstance(a, ev.AskedPlace)}
                assert {victim.to_job for victim in victims if victim.to_job >= 0} <= came


def test_every_job_that_can_fit_finally_runs():
    """When arrivals and faults have ended, only jobs that an empty fleet cannot host still wait."""
    ran = 0
    for seed in seeds(MANY):
        with replayable(seed):
            script, world = story(seed), played(seed).world
            jobs = {arrival.job.name: arrival.job for arrival in script.arrivals}
            empty = _empty(world)
            for j, name in enumerate(world.job_names):
                state = JobState(world.jobs.state[j])
                ran += state is JobState.DONE
                if state in (JobState.WAITING, JobState.STARTING, JobState.RUNNING):
                    can_fit = _can_fit(script, world, empty, jobs[name])
                    assert not can_fit, f"job `{name}` never ran"
    assert ran > 0, "nothing ran: this proves nothing"


def test_names_decide_nothing():
    """Other names for jobs, teams, contracts and pools give the same plans, beat by beat."""
    for seed in seeds(FEW):
        with replayable(seed):
            renamed = play(_renamed(story(seed)))
            assert [b.plan for b in renamed.beats] == [b.plan for b in played(seed).beats]


def _beats(player: Player) -> Iterator[tuple[World, ev.Plan]]:
    """The World as each plan found it, and the plan."""
    world = World()
    for seen, plan in player.beats:
        fold_all(world, seen)
        yield world, plan
        fold_all(world, plan.actions)


def _only_ticked(beat: Beat) -> bool:
    """Whether nothing was seen but the time, and nothing decided."""
    return not beat.plan.actions and all(isinstance(event, ev.Woke) for event in beat.seen)


STOPPED = (ev.Why.PREEMPTED, ev.Why.RECLAIMED, ev.Why.REORDERED, ev.Why.REPACKED)
UNDONE_BY = {ev.Why.GROWN: ev.Why.SHRUNK, ev.Why.SHRUNK: ev.Why.GROWN}
Disturbed = ev.AskedEvict | ev.AskedMove


def _aftermaths(seed: int, source: str) -> Iterator[tuple[list[Disturbed], ev.Plan]]:
    """What each plan asks of running work, and the plan that follows once it was done.

    Whoever moved has come up again by then. A drain is not asked for anybody's sake.
    """
    policy = story(seed).policy
    for world, plan in _beats(played(seed, source)):
        victims = [
            action
            for action in plan.actions
            if isinstance(action, Disturbed) and action.why is not ev.Why.DRAINED
        ]
        if victims:
            after = fold_all(snapshot.copy(world), plan.actions)
            for victim in victims:
                fold_all(after, _done(after, victim))
            yield victims, cycle(after, policy, CycleMemo())


def _done(world: World, asked: Disturbed) -> list[ev.Event]:
    now_ms, j, attempt = world.now_ms, asked.job, asked.attempt
    if isinstance(asked, ev.AskedEvict):
        return [ev.JobEvicted(now_ms, j, attempt)]
    return [ev.JobMoved(now_ms, j, attempt), ev.JobStarted(now_ms, j, attempt + 1)]


def _decisions(plan: ev.Plan) -> list[ev.Action]:
    kinds = ev.AskedPlace | ev.AskedEvict | ev.AskedMove | ev.AskedCancel | ev.AskedRelease
    return [action for action in plan.actions if isinstance(action, kinds)]


def _moves(plan: ev.Plan) -> list[ev.Action]:
    kinds = ev.AskedDrain | ev.AskedReturn | ev.AskedSpare
    return [action for action in plan.actions if isinstance(action, kinds)]


def _empty(world: World) -> World:
    """An empty fleet of the contracts that still run."""
    running = [row for c, row in enumerate(world.contract_rows) if world.contracts.is_running[c]]
    same_order = Queue("nobody", tuple(Share(kind) for kind in world.kinds))
    return fleet(*running, teams=[same_order, *world.queue_rows])


def _can_fit(script: Script, world: World, empty: World, job: Job) -> bool:
    """Whether an empty fleet of the contracts that still run places this job alone.

    A gang with bonds is asked of the nodes as they stand: another machine may stand elsewhere.
    """
    if _is_tied(job):
        memo = CycleMemo()
        s = world.shape_number[job.shape]
        room, known = memo.scheduling.empty_room(world), memo.scheduling.known(world, s)
        return fit(room, known.queue, job.shape, known.options, PACKING).shortage is None
    alone = snapshot.copy(empty)
    submit(alone, _loose(job))
    return job.name in placed(alone, decide(alone, script.policy))


def _is_tied(job: Job) -> bool:
    bonds = [*job.shape.bonds, *(bond for role in job.shape.roles for bond in role.bonds)]
    return any(bond.is_required for bond in bonds)


def _loose(job: Job) -> Job:
    """The same job without its wishes, which never keep it from a place."""
    roles = tuple(replace(role, bonds=()) for role in job.shape.roles)
    return replace(job, shape=replace(job.shape, roles=roles, bonds=()))


def _renamed(script: Script) -> Script:
    def name(word: str) -> str:
        return word[::-1] + "-" + str(len(word))

    return dataclasses.replace(
        script,
        contracts=[
            replace(row, name=name(row.name), pool=name(row.pool)) for row in script.contracts
        ],
        teams=[_renamed_queue(row, name) for row in script.teams],
        arrivals=[
            arrival._replace(
                job=replace(
                    arrival.job,
                    name=name(arrival.job.name),
                    shape=replace(arrival.job.shape, team=name(arrival.job.shape.team)),
                )
            )
            for arrival in script.arrivals
        ],
        incidents=[
            replace(event, queue=_renamed_queue(event.queue, name))
            if isinstance(event, ev.QueueSet)
            else event
            for event in script.incidents
        ],
    )


def _renamed_queue(row: Queue, name: Callable[[str], str]) -> Queue:
    return replace(row, name=name(row.name), parent=name(row.parent) if row.parent else "")
