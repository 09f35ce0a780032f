"""The events that bring the cluster state to what the cluster shows.

Level-triggered: it compares, and does not remember what happened. A watch that was lost, a restart
and a crash are one case: what differs is told. Whoever uses it folds each event before asking for
the next, so that every comparison is with the state as it is by then.

- What a pod holds in the cluster, its job holds here: of ours where our plan put it, else where it
  is seen. Pods of others are counted and never moved (``ForeignPods``).
- A promise of which nothing was carried out is forgotten: the job waits again. One that was carried
  out in part is completed (``vacant``); where it cannot be, the whole gang is taken back.
- A gang waits here only while all of its pods wait there. What is not placed whatever is free is
  held, in no queue, with the reason (``held``; ``JobsNow`` finds it).
- The seat of a pod that is gone is kept for the one that its owner makes, if that wants as many
  pods as before (``shrinking``); of a bare pod, for a minute: then the gang is a partial one, and
  says so (``left``).
- An elastic gang is as large as the plan says: its owner is asked for more or fewer pods
  (``ElasticGangs``), and what it makes of that is told.
- A job that lacks a counter of shared devices may have others stopped for it (``Cutting``).
- Victims that are not let go stay, and their preemptor waits for something else (``give_back``).
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.engine.fold.topology import lost_tier
from tidemill.live.history import telling
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes.jobs import UnitKey, alone_named
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import (
    declared,
    extras,
    limits,
    neighbours,
    seats,
    shrinking,
)
from tidemill.live.kubernetes.scheduling.cutting import NO_COUNTER, Cutting
from tidemill.live.kubernetes.scheduling.draining import Drains
from tidemill.live.kubernetes.scheduling.elastic_gangs import ElasticGangs
from tidemill.live.kubernetes.scheduling.foreign import ForeignPods
from tidemill.live.kubernetes.scheduling.jobs_now import JobsNow
from tidemill.live.kubernetes.scheduling.lives import PresentLives
from tidemill.live.kubernetes.scheduling.node_changes import NodeChanges
from tidemill.live.kubernetes.scheduling.seating import PodSeating, Told
from tidemill.live.kubernetes.scheduling.seats import Seat
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.sparing import Spared
from tidemill.live.kubernetes.scheduling.surplus import SurplusPods
from tidemill.live.kubernetes.scheduling.units import (
    UnitNow,
    Vacant,
    as_held,
    as_told,
    booked,
    comes_back,
    new_job,
    new_team,
    note,
    team_events,
)
from tidemill.live.kubernetes.scheduling.view import ClusterView, PodUnit
from tidemill.live.prices.rules import PriceRule
from tidemill.model import events as ev
from tidemill.model.columns import JOB
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Queue, Shape
from tidemill.model.states import ACTIVE, JobState, NodeState
from tidemill.model.topology import Topology
from tidemill.model.world import World

_WHY = {
    AttemptEnd.PREEMPTED: ev.Why.PREEMPTED, AttemptEnd.NODE_LOST: ev.Why.NODE_LOST,
    AttemptEnd.EVICTED: ev.Why.EVICTED, AttemptEnd.REJECTED: ev.Why.LOST_RACE,
    AttemptEnd.TIMED_OUT: ev.Why.TIMED_OUT, AttemptEnd.OUT_OF_MEMORY: ev.Why.OUT_OF_MEMORY,
}  # fmt: skip
NO_SEAT = Unplaceable(
    "PartialGang",
    "the rest of its gang runs, and the place of this pod there is not free any more: delete the"
    " gang's other pods too, and make them anew; then all of it starts together",
)
ALL_SEATED = Unplaceable(
    "WaitingForGang",
    "the places that its gang has are those of other pods: it gets one when one of those leaves, or"
    " when the gang grows",
)
AT_WORK = (NO_SEAT, ALL_SEATED)
"""Why pods wait while the others of their gang run."""
_WAITING = int(JobState.WAITING)
SEAT_GRACE_MS = 60_000
"""So long the seat of a bare pod that is gone is kept for one that somebody makes in its place."""


MADE_AGAIN_MS = 900_000
"""So long after a job was stopped for another new pods of it are the same job: Jobs wait up to ten
minutes before they replace pods that failed, and a scheduler may be down for a while."""


class FleetRules(NamedTuple):
    """What the owner of a fleet says of teams and of where nodes are."""

    queues: tuple[Queue, ...] = ()
    """Those above before those below."""
    topology: Topology = Topology()


class Differ:
    """Compares one cluster state with one view of a cluster."""

    def __init__(
        self,
        world: World,
        view: ClusterView,
        price_of: PriceRule,
        is_being_sent: Callable[[int], bool],
    ) -> None:
        self.world, self.view = world, view
        self._is_being_sent = is_being_sent
        self.lives = PresentLives(world)
        self.nodes = NodeChanges(self.lives, view, price_of)
        self.rules = self._looked_by = FleetRules()
        self._tiers = world.topology
        """Those in force: of the rules, or as they were before."""
        self.begins_ms = 0
        """When the journal began, by the clock of the cluster."""
        self.leaving: list[int] = []
        """Jobs that were asked to leave and hold something still; whoever sees to it empties
        this."""
        self.held: dict[UnitKey, Unplaceable] = {}
        """Jobs of ours that are not placed whatever is free, and why."""
        self.give_back: list[int] = []
        """Jobs that were asked to leave, and of which nothing left: they go on."""
        self.spared = Spared(view)
        self.tight = limits.TightNodes(view)
        self.seating = PodSeating(world, view, self.lives)
        self.foreign = ForeignPods(
            self.seating, is_being_sent, lambda unit: bool(self._now(self.view.unit(unit)).held)
        )
        self.elastic = ElasticGangs(self.seating, self.spared)
        self.cutting = Cutting(view, self.lives, self.seating.unit_of)
        self._surplus = SurplusPods(self.seating, self.elastic, is_being_sent)
        self._jobs = JobsNow(
            self.seating, self.elastic, self.cutting, self.nodes, self._surplus, self.tight
        )
        self.unread, self.gpuless = self._jobs.unread, self._jobs.gpuless
        self.job_of: dict[UnitKey, int] = {}
        self.unit_of, self.barred = self.seating.unit_of, self.seating.barred
        self._over_units: dict[UnitKey, None] = {}
        """Jobs on devices that are not booked for them, since others hold them: looked at again
        whenever anything changes."""
        self._short_since: dict[UnitKey, int] = {}
        """Gangs that lost pods which nobody may make anew, and since when their seats are kept."""
        self.left: list[int] = []
        """Gangs whose seats of such pods are free now; whoever tells it empties this."""
        self._put_off: set[UnitKey] = set()
        """Jobs that changed while answers about them were to come."""
        self._found: dict[UnitKey, UnitNow] = {}
        """What the last look found of the jobs that it looked at."""
        self.submitted: list[int] = []
        """Jobs that came since somebody last asked; whoever asks empties this."""

    # All of it ----------------------------------------------------------------------------------

    def tell(self, at_ms: int) -> Told:
        """What changed, in an order in which all of it can be folded."""
        yield from self._rules(at_ms)
        self.cutting.forget(at_ms)
        is_cut = self.view.claimed.look()
        view, is_changed = self.view, self.view.is_changed
        self.nodes.keep_labels(self._selected(view.dirty_units))
        nowhere = self._without_place()
        yield from self.nodes.tell(at_ms)
        if is_changed:
            waits = (*self.tight.due(), *self.gpuless.due())
            again = dict.fromkeys((*waits, *nowhere, *self._jobs.unsized))
            again |= self._jobs.by_class
            view.dirty_units.update({**self._over_units, **self._jobs.spread, **again})
            view.dirty_foreign.update(self.seating.unbooked)
        if at_ms >= self.due_ms:
            view.dirty_units.update(dict.fromkeys(self._short_since))
        self._surplus.share_out(list(view.dirty_units))
        units, foreign = self.gpuless.seats.first(view.dirty_units), sorted(view.dirty_foreign)
        view.dirty_units.clear()
        view.dirty_foreign.clear()
        yield from self._return_to_work(at_ms)
        self.spared.look(units, view.dirty_budgets)
        view.dirty_budgets.clear()
        found = self._found = dict[UnitKey, UnitNow]()
        for key in units:
            if (j := self.lives.job(key)) is not None and self._is_being_sent(j):
                self._put_off.add(key)
                continue
            found[key] = self._jobs.seated(view.unit(key), self._tiers)
            yield from self._release(at_ms, key, found[key])
        for pod in foreign:
            yield from self.foreign.gone(at_ms, pod)
        for pod in foreign:
            yield from self.foreign.here(at_ms, pod)
        for key in found:
            yield from self._hold(at_ms, key, found[key])
        yield from self.nodes.close(at_ms, self._crowded())
        for key in sorted(found, key=self._submit_ms):  # whole seconds: else as they came
            yield from self._submit(at_ms, key, found[key])
        if self.cutting.is_due(at_ms, is_cut=is_cut):
            yield from self._cut(at_ms)
        yield from self.nodes.tell_left(at_ms)
        self.world.node_words = self.nodes.over_committed()
        view.looked()

    def _return_to_work(self, at_ms: int) -> Told:
        """Jobs that were not let go hold what they held, as before; nobody is promised it."""
        jobs, world = self.world.jobs, self.world
        back, self.give_back = sorted(set(self.give_back)), []
        for j in back:
            state = jobs.state.item(j)
            if not jobs.is_leaving[j] or state not in ACTIVE:
                continue
            if state != JobState.RUNNING:
                self.give_back.append(j)  # it comes up first
                continue
            over = world.matrices.jobs.item(j, JOB.OVER_MILLI)
            yield from self.seating.stay(at_ms, j, world.placements[j], over)

    def tell_unseen(self, at_ms: int) -> Told:
        """At the beginning: jobs and nodes of the journal that the cluster does not show."""
        world, view = self.world, self.view
        self._surplus.share_out(list(view.units()))
        for n, row in enumerate(world.node_rows):
            name = telling.origin(row.name, world.node_number)
            if world.nodes.state[n] != NodeState.GONE and name not in view.nodes:
                yield ev.NodeMoved(at_ms, n, NodeState.GONE, ev.Why.NODE_LOST)
        shown = self.names() | {
            self.lives.name(alone_named(key))
            for key, pod in view.pods.items()
            if not view.is_ours(pod) and self.foreign.is_here(pod)
        }
        for j, name in enumerate(world.job_names):
            state = world.jobs.state.item(j)
            if state > JobState.RUNNING or telling.origin(name, world.job_number) in shown:
                continue
            yield ev.JobCancelled(at_ms, j)

    def names(self) -> set[str]:
        """The names of all jobs of ours that have pods."""
        return {self.lives.name(unit) for unit in self.view.units()}

    def let_drain(self, drains: Drains) -> None:
        """Nodes that are going to be taken are drained."""
        self.nodes.drains = self.gpuless.seats.drains = drains

    def may_evict(self, j: int) -> bool:
        """Whether a job is ours to stop, and somebody makes its pods again."""
        return j in self.unit_of and self.seating.comes_back(j)

    def waiting(self, key: UnitKey) -> list[tuple[KubePod, int]]:
        """The pods of a job of ours that could be bound now, with the number of their role."""
        known = self._found.get(key)  # of this very look, most of the time
        return known.waits if known is not None else self._now(self.view.unit(key)).waits

    def settle(self, j: int, *, is_as_asked: bool) -> bool:
        """All answers about a job are there: whether it has to be looked at.

        What was bound as planned, and has not changed meanwhile, differs in nothing.
        """
        unit = self.unit_of.get(j)
        if unit is None:
            return self.gpuless.seats.settled(j)
        self._surplus.started(unit)
        if is_as_asked and unit not in self._put_off and self._is_told(j, unit):
            return False
        self._put_off.discard(unit)
        self.view.dirty_units[unit] = None
        self.cutting.look_again()
        return True

    def _is_told(self, j: int, unit: UnitKey) -> bool:
        """Whether a job holds here as many seats of each node as its pods do there."""
        if self.world.shape_of(j).elastic_role is not None:  # its owner may lag behind
            return False
        view, number = self.view, self.lives.node_number
        there = [number(view.place_of(pod)) for pod in view.unit_pods(unit) if pod.node]
        here = [one.node for one in seats.held(self.world, j) for _ in range(one.replicas)]
        return there == here if len(here) == 1 else Counter(there) == Counter(here)

    def _without_place(self) -> list[UnitKey]:
        """Jobs that other pods keep from all nodes, or that may be on none with GPUs, of which one
        may be new or not as it was.
        """
        if not self.view.dirty_nodes:
            return []
        reasons = (neighbours.UNSCHEDULABLE, neighbours.WAITING)
        self.gpuless.forget()
        apart = [key for key, why in self.held.items() if why.reason in reasons]
        return [*apart, *self.gpuless.held]

    # Teams --------------------------------------------------------------------------------------

    def _selected(self, units: Iterable[UnitKey]) -> set[str]:
        """Labels that jobs select nodes by, and those that say where nodes are."""
        labels = {tier.label for tier in self.rules.topology.tiers if tier.label}
        labels |= self.view.volumes.keys | self.tight.labels
        requests = {pod.request for key in units for pod in self.view.unit_pods(key)}
        requests |= {self.view.pods[key].request for key in self.view.ruled.apart}
        for request in requests:
            if request.extras:
                labels |= self.view.heed_extras(extras.shares(request))
        return labels.union(*(request.label_keys for request in requests))

    def _rules(self, at_ms: int) -> Told:
        world = self.world
        told = self._tiers_now()
        if self.rules != self._looked_by or told.tiers != self._tiers.tiers:
            self._looked_by, self._tiers = self.rules, told  # what a job may wait for
            self.view.dirty_units.update(dict.fromkeys(self.view.units()))
        wanted = replace(told, unasked=self.nodes.unasked())
        if wanted != world.topology:
            yield ev.TopologySet(at_ms, wanted)
        are_others = False
        for event in team_events(world, at_ms, self.rules.queues, self.names):
            are_others = True
            yield event
        if are_others:  # whose jobs are held from now on, or count elsewhere
            self.view.look_at_all()

    def _tiers_now(self) -> Topology:
        """Those of the rules; as they were before, as long as a job is there that names one less.

        That is so where other rules came with a restart: rules that change meanwhile are refused.
        """
        told, world = self.rules.topology, self.world
        is_new = told.tiers != world.topology.tiers
        return told if is_new and lost_tier(world, told) is None else world.topology

    # Jobs of ours -------------------------------------------------------------------------------

    def _now(self, unit: PodUnit) -> UnitNow:
        return self._jobs.now(unit, self._tiers)

    def _submit_ms(self, key: UnitKey) -> int:
        return min((pod.created_ms for pod in self.view.unit_pods(key)), default=0)

    def _release(self, at_ms: int, key: UnitKey, now: UnitNow) -> Told:
        """What a job does not hold any more, or does not wait for any more."""
        j, jobs = self.lives.job(key), self.world.jobs
        if j is None or (j not in self.unit_of and self.foreign.has(key)):
            return
        self.job_of[key], self.unit_of[j] = j, key
        state, attempt = JobState(jobs.state.item(j)), jobs.attempt.item(j)
        if state in ACTIVE:
            if now.held:
                return
            if jobs.is_leaving[j] and j not in self.world.moving:
                yield ev.JobEvicted(at_ms, j, attempt)
            elif now.end is AttemptEnd.DONE:
                if state is JobState.STARTING:
                    yield ev.JobStarted(at_ms, j, attempt)
                yield ev.JobFinished(at_ms, j, attempt)
                return
            elif now.end is AttemptEnd.CANCELLED:
                yield ev.JobCancelled(at_ms, j)
                return
            elif now.end is not None:
                why = _WHY.get(now.end, ev.Why.CRASHED)
                yield ev.JobFailed(at_ms, j, attempt, why, is_final=True)
                return
            else:  # nothing of it was carried out, or all of it is there again to be placed
                is_up = state is JobState.RUNNING
                yield ev.JobFailed(at_ms, j, attempt, ev.Why.CRASHED if is_up else ev.Why.UNSAID)
        goes_on = now.is_complete and (self._is_same(j, now) or self._may_change(j, now))
        if not now.held and not goes_on:
            yield ev.JobCancelled(at_ms, j)

    def _is_same(self, j: int, now: UnitNow) -> bool:
        """Whether a job requests what it is known to request."""
        told = self.world.shape_of(j), self.world.jobs.estimate_ms.item(j)
        return (now.shape, now.estimate_ms) == told

    def _may_change(self, j: int, now: UnitNow) -> bool:
        """Whether a job that requests this is still the same one in the books."""
        was, jobs = self.world.shape_of(j), self.world.jobs
        if not isinstance(now.shape, Shape) or now.shape.kind is not was.kind:
            return False
        is_over = jobs.state.item(j) != _WAITING and jobs.ran_ms.item(j) > 0
        is_over = is_over and not jobs.evictions.item(j)  # else its owner makes its pods again
        return not is_over and (now.shape.team == was.team or not jobs.attempt.item(j))

    def _hold(self, at_ms: int, key: UnitKey, now: UnitNow) -> Told:
        """What a job is seen to hold."""
        if not now.held:
            self._over_units.pop(key, None)
            self._short_since.pop(key, None)
            return
        j, world = self.lives.job(key), self.world
        if j is None:
            if not isinstance(now.shape, Shape):
                shape = booked(world, self.view.shape_of(now.held[0][0]))
                now = now._replace(shape=as_held(now, shape))
            j = yield from self._new(at_ms, key, now)
        now = as_told(now, world.shape_of(j))
        seen, told = Counter(seat for _, seat in now.held), self.seating.devices(now)
        if world.jobs.state.item(j) == JobState.WAITING:
            pieces, over = seats.pieces(world, j, seen, told)
            yield ev.PlacementSeen(at_ms, j, world.jobs.attempt.item(j) + 1, pieces, over)
        mine = seats.of_job(world, j)
        if seen - mine or seats.are_elsewhere(world, j, told):
            counts = [role.count for role in world.shape_of(j).roles]
            kept = seats.at_most(seen + (mine - seen if now.waits else Counter()), seen, counts)
            pieces, over = seats.pieces(world, j, kept, told)
            if over != world.matrices.jobs.item(j, JOB.OVER_MILLI) or not over:
                yield from seats.changed(world, at_ms, j, pieces, over)
            mine = seats.of_job(world, j)
        note(self._over_units, key, is_so=bool(seen - mine))
        if world.jobs.is_leaving[j] and j not in world.moving:
            self.leaving.append(j)
            return
        is_over = bool(seen - mine) and j not in world.moving
        is_over |= self._surplus.is_left(now.held[0][0])
        if is_over and comes_back(now):  # its node has less than it did, or others have it
            yield ev.AskedEvict(at_ms, j, world.jobs.attempt.item(j), ev.Why.REPACKED)
            return
        yield from self._leave(at_ms, j, now, seen)
        if world.shape_of(j).elastic_role is not None:
            yield from self._resize(at_ms, j, now, seen)
            return
        mine = seats.of_job(world, j)
        yield from self._fill(at_ms, j, now, mine - seen)
        yield from self.seating.start(at_ms, j, now, is_whole=not mine - seen)

    def _resize(self, at_ms: int, j: int, now: UnitNow, seen: Counter[Seat]) -> Told:
        """An elastic gang is as large as it is to be; a pod for which it has no place waits."""
        yield from self.elastic.resize(at_ms, j, now, seen)
        vacant = seats.of_job(self.world, j) - seen
        if len(now.waits) > vacant.total() and j not in self.world.moving:
            self._found[self.unit_of[j]] = now._replace(hold=ALL_SEATED)

    def _leave(self, at_ms: int, j: int, now: UnitNow, seen: Counter[Seat]) -> Told:
        """Seats of pods that are gone, and that nobody makes anew, are free; in doubt later."""
        unit, mine = self.unit_of[j], seats.of_job(self.world, j)
        kept, is_sure = mine, True
        if mine - seen and not self._is_planned(j, now):
            roles = self.world.shape_of(j).roles
            bare = tuple(role.count for role in roles if len(roles) > 1 and not role.accelerators)
            kept, is_sure = shrinking.kept(self.view, unit, now, mine, seen, bare)
        if not mine - kept:
            self._short_since.pop(unit, None)
            return
        since_ms = self._short_since.setdefault(unit, at_ms)
        if not is_sure and at_ms - since_ms < SEAT_GRACE_MS:
            return
        del self._short_since[unit]
        pieces, over = seats.pieces(self.world, j, kept, self.seating.devices(now))
        yield from seats.changed(self.world, at_ms, j, pieces, over)
        if all(pod.owner is None for pod, _ in now.held):
            self.left.append(j)

    def _is_planned(self, j: int, now: UnitNow) -> bool:
        """Whether the size of a gang is the plan's, or a pod of it may be somewhere."""
        is_elastic = self.world.shape_of(j).elastic_role is not None and now.scale is not None
        return is_elastic or now.is_lost or j in self.world.moving

    @property
    def due_ms(self) -> int:
        """When seats of pods that are gone are to be free."""
        return min(self._short_since.values(), default=FOREVER_MS) + SEAT_GRACE_MS

    def _fill(self, at_ms: int, j: int, now: UnitNow, vacant: Counter[Seat]) -> Told:
        """Bind the pods that a half-bound gang lacks, or take all of it back."""
        if not now.waits or self._is_barred(j, vacant, len(now.waits)):
            return
        left, filled = Counter(vacant), list[Vacant]()
        free = self.seating.free_devices(j, now)
        open_ = [one for one in left if self.seating.is_open(one)]
        order = sorted(open_, key=lambda seat: seats.rank(self.world, seat))
        for pod, r in now.waits:
            seat = next((one for one in order if one[0] == r and left[one]), None)
            if seat is None:
                break
            left[seat] -= 1
            filled.append(self.seating.seat(j, pod, seat[1], free.get(seat, [])))
        else:
            self.seating.vacant += filled
            return
        if comes_back(now):
            attempt = self.world.jobs.attempt.item(j)
            yield ev.AskedEvict(at_ms, j, attempt, ev.Why.REPACKED)
        else:
            self._found[self.unit_of[j]] = now._replace(hold=NO_SEAT)

    def _is_barred(self, j: int, vacant: Counter[Seat], waiting: int) -> bool:
        """Whether a half-bound gang is left as it is until the server or a kubelet takes the rest.

        Not where a kubelet has too few devices by now, or its node is smaller than it was: they may
        never come back, and the gang would hold the others for nothing.
        """
        why = self.barred.get(self.unit_of[j])
        is_short = vacant.total() < waiting or any(
            self.nodes.is_short(self.lives.place_name(n)) for _, n in vacant
        )
        return why is not None and not (why.reason == limits.REFUSED and is_short)

    def _new(self, at_ms: int, key: UnitKey, now: UnitNow) -> Generator[ev.Event, None, int]:
        assert isinstance(now.shape, Shape), "only what can be said is submitted"
        yield from new_team(self.world, at_ms, now.shape.team)
        name = self.lives.next_name(self.lives.name(key))
        yield ev.JobSubmitted(at_ms, new_job(name, now.shape, now.estimate_ms, now.saving))
        j = self.world.job_number[name]
        self.job_of[key], self.unit_of[j] = j, key
        pods = [pod for pod, _ in (*now.held, *now.waits)]
        bound = [pod.bound_ms for pod, _ in now.held if pod.bound_ms is not None]
        created_ms = min((pod.created_ms for pod in pods), default=self._submit_ms(key))
        self.seating.came.append((j, created_ms, min(bound, default=None)))
        return j

    def _submit(self, at_ms: int, key: UnitKey, now: UnitNow) -> Told:
        """A job all of whose pods wait comes into the queue; one that is held does not."""
        if now.hold is not None:
            self.held[key] = now.hold
            return
        self.held.pop(key, None)
        if now.is_complete:
            yield from self._enter(at_ms, key, now)

    def _enter(self, at_ms: int, key: UnitKey, now: UnitNow) -> Generator[ev.Event, None, int]:
        """A job waits in the queue: as it did, for something else, again, or as a new one.

        It keeps its place as long as a pod of it is left from when it got that.
        """
        j = self.lives.job(key)
        if j is not None and self._is_same(j, now):
            return j
        if j is None:
            j = self._held_back(key, now)
        if j is None:
            j = yield from self._new(at_ms, key, now)
        else:
            assert isinstance(now.shape, Shape), "only what can be said is submitted"
            yield from new_team(self.world, at_ms, now.shape.team)
            yield ev.RequestChanged(at_ms, j, now.shape, now.estimate_ms)
            self.lives.is_back(key, j)
            self.job_of[key], self.unit_of[j] = j, key
        self.submitted.append(j)
        return j

    def _held_back(self, key: UnitKey, now: UnitNow) -> int | None:
        """The number of a job that was in the queue before it was held, or was stopped for another
        and has new pods; None: it is another one.
        """
        j = self.lives.last(self.lives.name(key))
        if j is None or self.world.jobs.state.item(j) != JobState.CANCELLED:
            return None
        since_ms = self.begins_ms + self.world.jobs.submit_ms.item(j)
        is_old = self._submit_ms(key) <= since_ms or self._is_made_again(j, key, since_ms)
        return j if is_old and self._may_change(j, now) else None

    def _is_made_again(self, j: int, key: UnitKey, since_ms: int) -> bool:
        """Whether an owner that is older than a job made new pods after it was stopped for another:
        its stops go on to be counted.
        """
        unit, jobs = self.view.unit(key), self.world.jobs
        above = declared.above(self.view.cluster, unit.job, unit.pods)
        is_same = bool(above) and all((one.created_ms or FOREVER_MS) <= since_ms for one in above)
        until_ms = self.begins_ms + jobs.since_ms.item(j) + MADE_AGAIN_MS
        return is_same and jobs.evictions.item(j) > 0 and self._submit_ms(key) <= until_ms

    def _cut(self, at_ms: int) -> Told:
        """Stop others for the first job that is held for a counter and may: it waits for that."""
        lacking = [key for key, why in self.held.items() if why.reason == NO_COUNTER]
        for key in sorted(lacking, key=self._submit_ms):
            now = self._found.get(key) or self._now(self.view.unit(key))
            if victims := self.cutting.victims(now):
                del self.held[key]
                self.cutting.begin(key, victims)
                heir = yield from self._enter(at_ms, key, now)
                for j in victims:
                    attempt = self.world.jobs.attempt.item(j)
                    yield ev.AskedEvict(at_ms, j, attempt, ev.Why.PREEMPTED, heir)
                return

    def _crowded(self) -> set[str]:
        """Nodes where pods sit on more devices than there are, or that take no further pod.

        What leaves the former is not given away.

        Otherwise the next job of ours takes it, has to leave as well, and so on for ever.
        """
        pods = [
            pod for key in self.seating.unbooked if (pod := self.view.pods.get(key)) is not None
        ]
        pods += [pod for unit in self._over_units for pod in self.view.unit_pods(unit)]
        found = {self.view.place_of(pod) for pod in pods if pod.node and not pod.is_over}
        for machine in limits.full(self.view) if self.view.crowded else ():
            found.update(part.name for part in self.view.parts_on(machine))
        return found
