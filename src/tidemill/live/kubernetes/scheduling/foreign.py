"""Pods of other schedulers: counted where they are, and never moved.

Where another scheduler has bound to devices that ours hold, promises of ours of which nothing was
sent yield at once, and as many of ours leave as are in the way.
"""

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes.jobs import UnitKey, alone_named
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import seats
from tidemill.live.kubernetes.scheduling.seating import PodSeating, Told
from tidemill.live.kubernetes.scheduling.seats import Marks
from tidemill.live.kubernetes.scheduling.units import booked, new_job, new_team, note
from tidemill.live.kubernetes.scheduling.view import Key
from tidemill.model import events as ev
from tidemill.model.columns import JOB
from tidemill.model.states import JobState


class ForeignPods:
    """Pods of others in the comparison; ``holds``: whether pods of a job of ours hold anything."""

    def __init__(
        self,
        seating: PodSeating,
        is_being_sent: Callable[[int], bool],
        holds: Callable[[UnitKey], bool],
    ) -> None:
        self._seating, self._is_being_sent, self._holds = seating, is_being_sent, holds
        self._world, self._view, self._lives = seating.world, seating.view, seating.lives

    def is_here(self, pod: KubePod) -> bool:
        """Whether a pod sits on a node that is known."""
        place = self._view.place_of(pod)
        return not pod.is_over and bool(pod.node) and self._lives.node_number(place) is not None

    def has(self, unit: UnitKey) -> bool:
        """Whether what was a pod of ours is, by its name, one of others by now."""
        pod = self._view.pods.get((unit.namespace, unit.name)) if unit.kind == "Pod" else None
        return pod is not None and not self._view.is_ours(pod)

    def gone(self, at_ms: int, key: Key) -> Told:
        """What a pod does not hold any more."""
        j, pod = self._lives.present(self._lives.name(alone_named(key))), self._view.pods.get(key)
        if pod is None or not self.is_here(pod):
            self._seating.unbooked.pop(key, None)
        if j is None or j in self._seating.unit_of or (pod is not None and self.is_here(pod)):
            return
        jobs = self._world.jobs
        ended = self._view.pod(key)
        is_done = ended is not None and ended.outcome is AttemptEnd.DONE
        if is_done and jobs.state.item(j) == JobState.RUNNING:
            yield ev.JobFinished(at_ms, j, jobs.attempt.item(j))
        else:
            yield ev.JobCancelled(at_ms, j)

    def here(self, at_ms: int, key: Key) -> Told:
        """What a pod holds."""
        pod = self._view.pods.get(key)
        if pod is None or not self.is_here(pod) or self._view.is_ours(pod):
            return
        world, name = self._world, self._lives.name(alone_named(key))
        n = self._lives.node_number(self._view.place_of(pod))
        assert n is not None, "it was found"
        j = self._lives.present(name)
        shape = booked(world, self._view.shape_of(pod))
        was = world.shape_of(j) if j is not None else shape  # its class stays: owners come and go
        if j is not None and (replace(shape, kind=was.kind) != was or j in self._seating.unit_of):
            yield ev.JobCancelled(at_ms, j)
            j = None
        if j is None:
            yield from new_team(world, at_ms, shape.team)
            life_name = self._lives.next_name(name)
            yield ev.JobSubmitted(at_ms, new_job(life_name, shape))
            j = world.job_number[life_name]
            self._seating.came.append((j, pod.created_ms, pod.bound_ms))
        is_waiting = world.jobs.state.item(j) == JobState.WAITING
        told = {(0, n): self._view.mask_of(pod)}
        is_other = seats.of_job(world, j) != Counter({(0, n): 1})
        if is_waiting or is_other or seats.are_elsewhere(world, j, told):
            yield from self._make_way(at_ms, n, shape.roles[0].accelerators, told[0, n])
            pieces, over = seats.pieces(world, j, Counter({(0, n): 1}), told)
            note(self._seating.unbooked, key, is_so=over > 0)
            if over and over == world.matrices.jobs.item(j, JOB.OVER_MILLI):
                pass  # as it was told
            elif is_waiting:
                attempt = world.jobs.attempt.item(j) + 1
                yield ev.PlacementSeen(at_ms, j, attempt, pieces, over)
            else:
                yield from seats.changed(world, at_ms, j, pieces, over)
            if over:
                yield from self._give_way(at_ms, n, shape.roles[0].accelerators, told[0, n])
        if pod.up_ms is not None and world.jobs.state.item(j) == JobState.STARTING:
            yield ev.JobStarted(at_ms, j, world.jobs.attempt.item(j))

    def _make_way(self, at_ms: int, n: int, each: int, told: int) -> Told:
        """Promises of ours of which nothing was sent yield to what is there."""
        world = self._world
        for j in sorted(world.aboard[n], reverse=True):
            if seats.free_mask(world, n, 1, each, marks=Marks(told=told))[1] or not each:
                return
            if told and not told & seats.mask_on(world, j, n):
                continue
            unit = self._seating.unit_of.get(j)
            if unit is None or self._is_being_sent(j) or world.jobs.is_leaving[j]:
                continue
            if not self._holds(unit):
                yield ev.JobFailed(at_ms, j, world.jobs.attempt.item(j), ev.Why.UNSAID)

    def _give_way(self, at_ms: int, n: int, each: int, told: int) -> Told:
        """Another scheduler has bound to devices that ours hold: the youngest of ours leave.

        No more of them than are in the way; those that are leaving already count. ``told``: which
        devices, if that is known.
        """
        world, mine = self._world, dict[int, int]()
        for j in world.aboard[n]:
            held = seats.mask_on(world, j, n)
            if j in self._seating.unit_of and (not told or told & held):
                mine[j] = (held & told if told else held).bit_count()
        lacking = each - seats.free_mask(world, n, each, 1, Marks(told=told))[1]
        lacking -= sum(mine[j] for j in mine if world.jobs.is_leaving[j])
        for j in sorted(mine, key=lambda j: (world.jobs.placed_ms.item(j), j), reverse=True):
            if lacking > 0 and not world.jobs.is_leaving[j] and self._seating.comes_back(j):
                lacking -= mine[j]
                yield ev.AskedEvict(at_ms, j, world.jobs.attempt.item(j), ev.Why.REPACKED)
