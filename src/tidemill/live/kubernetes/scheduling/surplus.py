"""Pods of a pod group beyond what it needs to start: jobs of their own, that start after the gang.

Which pods are the gang is settled before anything of the group is looked at, so that no pod is ever
counted in both.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from tidemill.live.history.rows import AttemptEnd
from tidemill.live.kubernetes import ties
from tidemill.live.kubernetes.jobs import UnitKey, alone
from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import declared, hosts, seats
from tidemill.live.kubernetes.scheduling.elastic_gangs import ElasticGangs
from tidemill.live.kubernetes.scheduling.neighbours import with_conditions
from tidemill.live.kubernetes.scheduling.seating import PodSeating
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.units import in_gang, key_of
from tidemill.live.kubernetes.scheduling.view import Key, PodUnit
from tidemill.live.kubernetes.ties import Tie
from tidemill.model.measures import count_text
from tidemill.model.node_rules import LabelCondition, LabelTest
from tidemill.model.rows import Shape
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.topology import Topology


class SurplusPods:
    """Which pods of pod groups are the gang, and when the others may start."""

    def __init__(
        self, seating: PodSeating, elastic: ElasticGangs, is_being_sent: Callable[[int], bool]
    ) -> None:  # fmt: skip
        self._seating, self._view, self._lives = seating, seating.view, seating.lives
        self._elastic, self._is_being_sent = elastic, is_being_sent

    def share_out(self, keys: Iterable[UnitKey]) -> None:
        """Of pod groups so many pods as they need are the gang; a gang that is being bound stays.

        One that holds more seats than its group needs by now keeps as many pods.
        """
        for key in keys:
            if self._view.apart.tied(key):
                self._share_hosts(key)
            j = self._lives.job(key) if key.kind == "PodGroup" else None
            if key.kind != "PodGroup" or (j is not None and self._is_being_sent(j)):
                continue
            unit = self._view.unit(key)
            if (least := self._least(unit)) is not None:
                held = self._seats_with_gpus(j) if j is not None else 0
                self._share_out(unit, least, max(least, held))

    def _seats_with_gpus(self, j: int) -> int:
        roles = self._seating.world.shape_of(j).roles
        mine = seats.of_job(self._seating.world, j).items()
        return sum(count for (r, _), count in mine if roles[r].accelerators)

    def _hosts_beyond(self, key: UnitKey) -> list[Key]:
        """Pods without GPUs that came when their gang was bound without any."""
        return [one for one in self._view.apart.tied(key) if self._view.beyond_of(one) == key]

    def _share_hosts(self, key: UnitKey) -> None:
        """Pods without GPUs start with a gang that is tied to a place, or go where it is by now."""
        view, world, j = self._view, self._lives.world, self._lives.job(key)
        is_bound = j is not None and world.jobs.state.item(j) in ACTIVE
        if j is not None and is_bound:
            is_without = hosts.number(world.shape_of(j)) is None
        else:
            is_without = self._elastic.scale(view.unit(key)) is not None
        for one in view.apart.tied(key):
            is_beyond = view.beyond_of(one) == key
            if is_without and not is_beyond:
                view.set_beyond(one, key)
            elif is_beyond and not is_without and not is_bound and view.pods[one].is_pending:
                view.set_beyond(one, None)

    def _least(self, unit: PodUnit) -> int | None:
        """How many pods with accelerators the gang of a group has; None: nobody says."""
        told = self._declared(unit)
        if not told:
            return told
        apart, world = self._view.apart, self._lives.world
        least = max(told - len(apart.without_gpus(unit.key)) - len(apart.tied(unit.key)), 1)
        j = self._lives.job(unit.key)
        if j is None or world.jobs.state.item(j) not in ACTIVE:
            return least
        roles = world.shape_of(j).roles  # as it started, whatever somebody writes since
        return min(least, sum(role.count for role in roles if role.accelerators))

    def _declared(self, unit: PodUnit) -> int | None:
        """How many pods a group needs to start: by its object, or by what its pods declare.

        None: nobody says.
        """
        view, key = self._view, unit.key
        if unit.job.group is not None:
            return unit.job.group.least
        mine = [pod for pod in unit.pods if view.pods.get(key_of(pod)) is pod]
        return declared.size([*mine, *(view.pods[one] for one in view.beyond(key))]) or None

    def lack_of(self, unit: PodUnit, pending: Sequence[KubePod]) -> Unplaceable | None:
        """That pods of a group are missing; None: all are there that it needs, or it is none.

        Those that have done their work are not made again.
        """
        wanted = (self._declared(unit) or 0) if unit.key.kind == "PodGroup" else 0
        apart = self._view.apart
        there = len(apart.without_gpus(unit.key)) + len(self._hosts_beyond(unit.key))
        there += sum(not pod.is_over or pod.outcome is AttemptEnd.DONE for pod in unit.pods)
        if there >= wanted:
            return None
        found = declared.incomplete(pending, wanted, there, apart.of_others(unit.key))
        above = declared.above(self._view.cluster, unit.job, unit.pods)
        return declared.in_turn(found, above)

    def _share_out(self, unit: PodUnit, least: int, size: int) -> None:
        """Those on nodes first are the gang, but for those that were a job of their own before."""
        view = self._view
        of_hosts = self._hosts_beyond(unit.key)
        beyond = [key for key in view.beyond(unit.key) if key not in of_hosts]
        if self._elastic.scale(unit) is not None:
            for key in beyond:
                view.set_beyond(key, None)
            return
        mine = self._alive(unit.key)
        if not mine and self._is_done(unit.key):
            return
        mine.sort(
            key=lambda pod: (not pod.node, self._was_alone(pod), pod.created_ms, in_gang(pod))
        )
        for pod in mine[size:]:
            view.set_beyond(key_of(pod), unit.key)
        spare = [key for key in beyond if view.pods[key].is_pending or self._stands_in(key, mine)]
        spare.sort(key=lambda key: (view.pods[key].created_ms, key))
        for key in spare[: max(least - len(mine), 0)]:
            view.set_beyond(key, None)
        if any(not pod.node for pod in mine):  # it is to start, perhaps again
            for key in (*beyond, *of_hosts):
                view.touch(key)

    def _stands_in(self, key: Key, mine: list[KubePod]) -> bool:
        """Whether a pod that runs beyond a gang is of it now: nobody makes the one that is gone."""
        pods = [self._view.pods[key], *mine]
        is_bare = all(pod.owner is None for pod in pods) and bool(mine)
        return is_bare and all(pod.node and not pod.is_over for pod in pods)

    def _was_alone(self, pod: KubePod) -> bool:
        return bool(pod.node) and self._lives.job(alone(pod)) is not None

    def started(self, unit: UnitKey) -> None:
        """A gang is bound: look at the others of its group."""
        for key in self._view.beyond(unit):
            self._view.touch(key)

    def hold_of(self, pod: KubePod) -> Unplaceable | None:
        """Why a pod is not placed whatever is free: its group has not started; None: it may be."""
        gang = self._view.beyond_of(key_of(pod))
        least = self._least(self._view.unit(gang)) if gang is not None else None
        if gang is None or least is None:
            return None
        mine = self._alive(gang)
        there = sum(bool(one.node) for one in mine)
        if there >= least or (not mine and self._is_done(gang)):
            return None
        return Unplaceable(
            "WaitingForGang",
            f"{there} of the {count_text(least, 'pod')} that its group `{gang.name}`"
            " needs are bound: it"
            " starts after them",
        )

    def near_gang(
        self, pod: KubePod, told: Iterable[Tie], shape: Shape, topology: Topology
    ) -> Shape:
        """A shape that keeps a pod in the place of its gang, where the group has to be in one."""
        gang = self._view.beyond_of(key_of(pod))
        if gang is None:
            return shape
        found = (self._view.machines.get(one.node) for one in self._alive(gang) if one.node)
        machines = [one for one in found if one is not None]
        for name in ties.required((*told, *ties.of_pod(pod.annotations))):
            tier = ties.tier(topology, name)
            label = (tier.label if tier is not None else "") or HOSTNAME
            places = sorted({one.labels[label] for one in machines if label in one.labels})
            if places:
                here = LabelCondition(label, LabelTest.IN, tuple(places))
                roles = tuple(with_conditions(role, [here]) for role in shape.roles)
                shape = replace(shape, roles=roles)
        return shape

    def _is_done(self, gang: UnitKey) -> bool:
        """Whether a gang did its work: nobody has to wait for it any more."""
        j = self._lives.last(self._lives.name(gang))
        return j is not None and self._lives.world.jobs.state.item(j) == JobState.DONE

    def is_left(self, pod: KubePod) -> bool:
        """Whether a pod is on a node while the gang of its group waits to start, or start again."""
        gang = self._view.beyond_of(key_of(pod))
        mine = self._alive(gang) if gang is not None else []
        return bool(mine) and not any(one.node for one in mine)

    def _alive(self, gang: UnitKey) -> list[KubePod]:
        mine = (pod for pod in self._view.unit_pods(gang) if pod.request.gpu is not None)
        return [one for one in mine if not one.is_over and self._view.pods.get(key_of(one)) is one]
