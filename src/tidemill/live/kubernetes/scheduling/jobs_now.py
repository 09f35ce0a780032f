"""What the pods of a job of ours show: what it holds, what of it waits, and what keeps it.

Why a job is not placed, whatever is free, is decided here (``_hold_of``); the comparison only tells
it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.jobs import alone as alone_key
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import (
    by_classes,
    declared,
    estimates,
    hosts,
    neighbours,
    parallelism,
    shapes,
    sizes,
    spreading,
    unheeded,
)
from tidemill.live.kubernetes.scheduling.cutting import NO_COUNTER, Cutting
from tidemill.live.kubernetes.scheduling.elastic_gangs import ElasticGangs
from tidemill.live.kubernetes.scheduling.gpuless import NodesWithoutGpus
from tidemill.live.kubernetes.scheduling.limits import TightNodes
from tidemill.live.kubernetes.scheduling.node_changes import NodeChanges
from tidemill.live.kubernetes.scheduling.seating import PodSeating
from tidemill.live.kubernetes.scheduling.seats import Seat
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.sizes import OwnerScale
from tidemill.live.kubernetes.scheduling.surplus import SurplusPods
from tidemill.live.kubernetes.scheduling.units import (
    UnitNow,
    booked,
    end_of,
    in_gang,
    key_of,
    may_be_stopped,
    note,
    teams_below,
)
from tidemill.live.kubernetes.scheduling.view import PodUnit
from tidemill.model.rows import Shape
from tidemill.model.states import ACTIVE
from tidemill.model.topology import Topology

MOST_SHAPES = 4096
"""As many as are remembered elsewhere: jobs that come are mostly like others before."""


class JobsNow:
    """Jobs of ours as the cluster shows them at this moment."""

    def __init__(
        self,
        seating: PodSeating,
        elastic: ElasticGangs,
        cutting: Cutting,
        nodes: NodeChanges,
        surplus: SurplusPods,
        tight: TightNodes,
    ) -> None:
        self._surplus, self._tight = surplus, tight
        self._seating, self._elastic, self._cutting = seating, elastic, cutting
        self._view, self._lives, self._nodes = seating.view, seating.lives, nodes
        self.gpuless = NodesWithoutGpus(seating.lives.world, seating.view)
        self.spread: dict[UnitKey, None] = {}
        """Gangs that are spread by what is free: looked at again whenever anything changes."""
        self.unsized: dict[UnitKey, None] = {}
        """Gangs of which not all pods are there to show which have GPUs: looked at again, too."""
        self.by_class: dict[UnitKey, None] = {}
        """Jobs held for a resource that no plug-in of a node has: looked at again, too."""
        self.unread: dict[UnitKey, tuple[str, ...]] = {}
        """What is wrong with annotations of jobs of ours, in words; whoever tells it empties
        this."""
        self._taken_by = self._lives.world.topology
        self._takeable = set[Shape]()
        """What the books are known to take, by the tiers that they have."""

    def now(self, unit: PodUnit, topology: Topology) -> UnitNow:
        """The pods of a job; ``topology``: the tiers that it may be tied to."""
        view, job = self._view, unit.job
        scale = self._elastic.scale(unit)
        alone = [pod for pod in unit.pods if pod.request.gpu is None]
        is_gang = bool(alone) and unit.key != alone_key(alone[0])
        shape: Shape | Unplaceable
        if alone and not is_gang:
            shape = shapes.of_pod(replace(alone[0], node=""), job.team, job.job_class)
            request = alone[0].request
            if request.unread or request.unkept or request.uncounted or request.extras:
                shape = shapes.unkept(alone[0])
            mine = [(pod, 0) for pod in alone]
        elif job.roles:
            kinds = self._nodes.kinds_of
            if scale is None:  # one that may grow keeps to what it began with
                kinds = shapes.any_if_one(kinds)
            shape = shapes.of_job(job, kinds, topology)
            mine = [(pod, r) for r, role in enumerate(job.roles) for pod in role.pods]
        else:
            shape = hosts.NOT_THERE if alone else Unplaceable("Gone", "it has no pods")
            mine = []
        shape = self._elastic.sized(shape, scale)
        scale = None if isinstance(scale, Unplaceable) else scale
        shape, mine = self._kept(unit, shape, mine, topology)
        shape = self._divided(unit, shape)
        shape, mine = self._with_hosts(unit, shape, mine, alone if is_gang else ())
        alive = [
            (pod, r) for pod, r in mine if not pod.is_over and view.pods.get(key_of(pod)) is pod
        ]
        held, waits, is_lost = list[tuple[KubePod, Seat]](), list[tuple[KubePod, int]](), False
        for pod, r in sorted(alive, key=lambda one: in_gang(one[0])):
            n = self._lives.node_number(self._view.place_of(pod)) if pod.node else None
            if n is not None:
                held.append((pod, (r, n)))
            elif pod.node:
                is_lost = True
            elif pod.leaves_ms is None and pod.is_bindable:
                waits.append((pod, r))
        shape, waits = self._off_tight_nodes(unit.key, shape, [pod for pod, _ in alive], waits)
        shape = self._booked(self._taken(unit, shape), alive, holds=bool(held) or is_lost)
        is_free = not held and not is_lost and not job.is_suspended
        pending = [pod for pod, _ in alive if pod.is_pending and pod.leaves_ms is None]
        self.unsized.pop(unit.key, None)
        self.by_class.pop(unit.key, None)
        self.gpuless.held.pop(unit.key, None)
        hold = self._hold_of(unit, shape, pending, waits, scale) if is_free and pending else None
        is_complete = is_free and bool(waits) and hold is None
        end = None if alive else end_of(pod for pod, _ in mine)
        pods = [pod for pod, _ in alive]
        above = declared.above(view.cluster, job, pods)
        if flaws := (*unheeded.words(pods, above, job, topology), *sizes.unheeded(view, unit)):
            self.unread[unit.key] = (*self.unread.get(unit.key, ()), *flaws)
        estimate_ms, saving = estimates.of_job(pods, above), estimates.saving(pods, above)
        return UnitNow(
            shape, held, waits, is_complete, is_lost, end, hold, estimate_ms, saving, scale
        )

    def seated(self, unit: PodUnit, topology: Topology) -> UnitNow:
        """The same; a pod without GPUs gets a seat on a node without any, where one has room."""
        now = self.now(unit, topology)
        if (seat := self.gpuless.seat(unit, now)) is not None:
            self._seating.vacant.append(seat)
        if self.gpuless.seats.is_coming(unit.key):
            return now._replace(is_complete=False)
        hold = self.gpuless.hold_alone(unit.key, now)
        return now if hold is None else now._replace(hold=hold, is_complete=False)

    def _taken(self, unit: PodUnit, shape: Shape | Unplaceable) -> Shape | Unplaceable:
        """The same if the books take it; else why they do not: nothing else says that of a job, and
        nothing of a job is told to them that they would refuse.
        """
        if isinstance(shape, Unplaceable):
            return shape
        topology = self._lives.world.topology
        if topology is not self._taken_by:
            self._taken_by = topology
            self._takeable.clear()
        if shape in self._takeable:
            return shape
        if len(self._takeable) >= MOST_SHAPES:
            self._takeable.clear()
        if (refused := shapes.refused(topology, self._lives.name(unit.key), shape)) is not None:
            return refused
        self._takeable.add(shape)
        return shape

    def _divided(self, unit: PodUnit, shape: Shape | Unplaceable) -> Shape | Unplaceable:
        """A gang whose ranks talk in groups, that sit together where they can."""
        pods = [pod for pod in unit.pods if not pod.is_over]
        above = declared.above(self._view.cluster, unit.job, pods)
        found, flaw = parallelism.kept(shape, pods, above)
        self.unread.pop(unit.key, None)
        if flaw:
            self.unread[unit.key] = (flaw,)
        return found

    def _booked(
        self, shape: Shape | Unplaceable, alive: spreading.Placed, *, holds: bool
    ) -> Shape | Unplaceable:  # fmt: skip
        """What a job is in the books: whether it may be stopped, and of which team it is."""
        if isinstance(shape, Unplaceable):
            return shape
        if not may_be_stopped(alive):
            shape = shapes.unstoppable(shape)
        return booked(self._lives.world, shape) if holds else shape

    def _kept(
        self, unit: PodUnit, shape: Shape | Unplaceable, mine: spreading.Placed, topology: Topology
    ) -> tuple[Shape | Unplaceable, spreading.Placed]:
        """A shape that keeps rules about other pods, and the roles of its pods then: those that are
        gone have what is left.
        """
        j, view = self._lives.job(unit.key), self._view
        known = self._lives.world.shape_of(j) if j is not None else None
        ground = neighbours.RuleContext(topology, known, self._seating.room)
        shape = neighbours.kept(view, unit, shape, ground)
        if isinstance(shape, Shape) and unit.pods:
            shape = self._surplus.near_gang(unit.pods[0], unit.job.ties, shape, topology)
        is_held = any(pod.node and not pod.is_over for pod, _ in mine)
        if is_held and known is not None and spreading.is_split(known):
            shape = known
        is_split = isinstance(shape, Shape) and spreading.is_split(shape)
        note(self.spread, unit.key, is_so=is_split and not is_held)
        if isinstance(shape, Unplaceable) or not is_split:
            return shape, mine
        key = shape.roles[0].affinity[0][-1].key
        mine = sorted(
            mine, key=lambda one: one[0].is_over or view.pods.get(key_of(one[0])) is not one[0]
        )
        machines = (view.machines.get(pod.node) if not pod.is_over else None for pod, _ in mine)
        places = ["" if one is None else one.labels.get(key, "") for one in machines]
        return shape, spreading.with_roles(shape, mine, places)

    def _off_tight_nodes(
        self, key: UnitKey, shape: Shape | Unplaceable, alive: Sequence[KubePod],
        waits: spreading.Placed,
    ) -> tuple[Shape | Unplaceable, spreading.Placed]:  # fmt: skip
        """A shape that keeps off nodes which would refuse its pods, and the roles of those then."""
        found = self._tight.kept(key, alive, shape)
        if found is not shape and isinstance(found, Shape) and spreading.is_split(found):
            waits = spreading.with_roles(found, waits, [""] * len(waits))
        return found, waits

    def _with_hosts(
        self, unit: PodUnit, shape: Shape | Unplaceable, mine: spreading.Placed,
        alone: Sequence[KubePod],
    ) -> tuple[Shape | Unplaceable, spreading.Placed]:  # fmt: skip
        """A gang with its pods without GPUs; one that is bound has the roles of when it was.

        ``mine``: the others, with their roles.
        """
        if not alone:
            return shape, mine
        j, world = self._lives.job(unit.key), self._lives.world
        r: int | None = len(shape.roles) if isinstance(shape, Shape) else 0
        if j is not None and world.jobs.state.item(j) in ACTIVE:
            r = hosts.number(world.shape_of(j))
        if r is None:
            return shape, mine
        return hosts.joined(shape, hosts.of(alone)), [*mine, *((pod, r) for pod in alone)]

    def _hold_of(
        self,
        unit: PodUnit,
        shape: Shape | Unplaceable,
        pending: Sequence[KubePod],
        waits: Sequence[tuple[KubePod, int]],
        scale: OwnerScale | None,
    ) -> Unplaceable | None:
        """Why none of the pods that wait is placed, whatever is free; None: they may be.

        ``scale``: of an elastic gang; None: it has one size.
        """
        of_itself = self._of_itself(unit, shape, pending)
        if isinstance(shape, Unplaceable) or of_itself is not None:
            return of_itself
        with_gpus = [pod for pod in pending if pod.request.gpu is not None]
        if (owner := self._view.awaited.of(self._view.cluster, with_gpus)) is not None:
            return declared.unseen(unit.key.namespace, owner)
        if with_gpus and (unsized := self._unsized(unit)) is not None:
            return unsized
        is_told = declared.is_told_by_owner(unit.job)
        is_read = self._view.awaited.is_read
        if (nameless := declared.nameless(unit.job, with_gpus)) is not None:
            return nameless
        named = with_gpus or declared.in_groups(pending)
        if not is_told and (flaw := declared.flaw(self._view.cluster, named, is_read)):
            return flaw
        lack = self._view.claimed.lack_of(pending)
        if lack and unit.key not in self._cutting.heirs:
            return Unplaceable(NO_COUNTER, lack)
        if (missing := self._missing(unit, shape, pending, waits, scale)) is not None:
            return missing
        return (
            self.gpuless.hold_of(unit)
            or self._seating.barred.get(unit.key)
            or self._surplus.hold_of(pending[0])
        )

    def _missing(
        self, unit: PodUnit, shape: Shape, pending: Sequence[KubePod],
        waits: Sequence[tuple[KubePod, int]], scale: OwnerScale | None,
    ) -> Unplaceable | None:  # fmt: skip
        """That pods of a gang are still to come, or one too many is there; None: neither."""
        if scale is not None:
            if scale.is_below:
                return scale.why_below
            is_part, wanted = scale.now != len(waits), scale.now
        elif (missing := self._surplus.lack_of(unit, pending)) is not None:
            return missing
        else:
            there = [r for _, r in waits]
            is_part = any(there.count(r) != role.count for r, role in enumerate(shape.roles))
            wanted = sum(role.count for role in shape.roles)
        return declared.incomplete(pending, wanted, len(pending)) if is_part else None

    def _of_itself(
        self, unit: PodUnit, shape: Shape | Unplaceable, pending: Sequence[KubePod]
    ) -> Unplaceable | None:
        """What a job asks for that nobody can give it here; None: nothing."""
        if (by_class := by_classes.refused(self._view, pending)) is not None:
            self.by_class[unit.key] = None
            return by_class
        if isinstance(shape, Unplaceable):
            return shape
        below = teams_below(self._lives.world, shape.team)
        return declared.above_others(shape.team, below) if below else None

    def _unsized(self, unit: PodUnit) -> Unplaceable | None:
        """That nobody knows how large a gang is: only its pods have GPUs, and some are to come."""
        view, job = self._view, unit.job
        told = declared.templates(view.cluster, job)
        if not told or any(part.request.gpu is not None for part in told):
            return None
        pods = view.all_pods(unit.key)
        done = sum(pod.phase == "Succeeded" for pod in pods)
        wanted = shapes.at_once(job, sum(part.count for part in told), done)
        there = sum(not pod.is_over for pod in pods)
        if there >= wanted:
            return None
        self.unsized[unit.key] = None
        return declared.unsized(job, wanted, there)
