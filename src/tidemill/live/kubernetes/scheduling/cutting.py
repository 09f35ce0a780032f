"""Whom to stop so that a device can be cut for a job that is held for a counter.

Plans count the devices that are offered, so they cannot see that a job which holds a whole GPU is
in the way of an instance of it, or the other way round. Here it is seen, by the rights that a plan
goes by: in its own team those of less priority that may be stopped now and are not spared; the
cheapest set, none of whom could be spared, none of whom would only be moved, if it is worth it. A
quota gives no right here: it is of one GPU type, and what is in the way is of another. For whom
others leave comes first when devices are cut anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tidemill.live.history import cut_gpus
from tidemill.live.history.attempts import kind_of
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import claimed
from tidemill.live.kubernetes.scheduling.claims import Key
from tidemill.live.kubernetes.scheduling.lives import PresentLives
from tidemill.live.kubernetes.scheduling.partitions import PodWants, Seated, Shelves
from tidemill.live.kubernetes.scheduling.units import UnitNow
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.model.events import Why
from tidemill.model.measures import MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Shape
from tidemill.model.states import ACTIVE, JobState
from tidemill.scheduling import protection, shares
from tidemill.scheduling.preemption import cost

NO_COUNTER = "WaitingForCounter"
"""Why a job is held for which too little is left of what its devices share with others."""
AGAIN_MS = MINUTE_MS
"""A search in vain is made again when devices are taken or given back, and so often: time alone
ends protections."""
LATEST_MS = MINUTE_MS
"""So long after the devices of its victims were given back a job may wait to be placed on them."""
LONGEST_MS = 10 * MINUTE_MS
"""So long their claims may keep them after the victims have left: the cluster takes claims back by
itself, late where it has much to do. Whoever does not wait stops another job for nothing."""
MOST_CONSIDERED, ROUNDS = 64, 3
MOST_MACHINES = 200
"""With more of them a set is tried on the machines of the victims alone: all of them are looked at
to see who would only be moved, and each look at 5,000 takes as long as one at what is offered."""


class _Victim(NamedTuple):
    """A job that may be stopped, and the devices that it holds by claim."""

    priority: int
    usd_micro: int
    job: int
    wants: tuple[PodWants, ...]
    devices: frozenset[claimed.DeviceId]


class Cutting:
    """Jobs for which others leave, and who; ``policy``: what of it is allowed."""

    def __init__(
        self, view: ClusterView, lives: PresentLives, unit_of: Mapping[int, UnitKey]
    ) -> None:
        self._view, self._lives, self._unit_of = view, lives, unit_of
        self.policy = Policy()
        self.heirs: dict[UnitKey, tuple[int, ...]] = {}
        """By job: those who leave for it."""
        self._claims: dict[UnitKey, dict[claimed.DeviceId, Key]] = {}
        """By job: what those held who leave for it, by which claims."""
        self._left_ms: dict[UnitKey, int] = {}
        self._free_ms: dict[UnitKey, int] = {}
        self._again_ms = 0
        view.claimed.comes_first = self.heirs.__contains__

    def is_due(self, at_ms: int, *, is_cut: bool) -> bool:
        """Whether to search now; ``is_cut``: what is offered was looked at anew."""
        if not is_cut and at_ms < self._again_ms:
            return False
        self._again_ms = at_ms + AGAIN_MS
        return self.policy.may_preempt and not self.policy.may_reorder

    def look_again(self) -> None:
        """Search with the next look: a job that was being bound may be stopped once it runs."""
        self._again_ms = 0

    def forget(self, at_ms: int) -> None:
        """Drop those who got their place, are gone, or waited long enough for their devices."""
        world, holder = self._lives.world, self._view.claimed.book.holder
        for unit, victims in list(self.heirs.items()):
            j = self._lives.job(unit)
            is_waiting = j is not None and world.jobs.state.item(j) == JobState.WAITING
            leaving = [v for v in victims if world.jobs.is_leaving[v]]
            stays = any(world.jobs.state.item(v) in ACTIVE for v in victims if v not in leaving)
            left_ms = at_ms if leaving else self._left_ms.setdefault(unit, at_ms)
            is_kept = any(holder.get(one) == by for one, by in self._claims[unit].items())
            free_ms = at_ms if leaving or is_kept else self._free_ms.setdefault(unit, at_ms)
            is_late = at_ms - free_ms > LATEST_MS or at_ms - left_ms > LONGEST_MS
            if not is_waiting or stays or is_late:
                self._end(unit)
                self._view.dirty_units[unit] = None

    def begin(self, unit: UnitKey, victims: Iterable[int]) -> None:
        """These leave for a job."""
        book, self.heirs[unit] = self._view.claimed.book, tuple(victims)
        pods = (pod for j in self.heirs[unit] for pod in self._view.unit_pods(self._unit_of[j]))
        held = {one for pod in pods for one in claimed.given_to(book, pod)}
        self._claims[unit] = {one: book.holder[one] for one in held if one in book.holder}

    def _end(self, unit: UnitKey) -> None:
        del self.heirs[unit], self._claims[unit]
        self._left_ms.pop(unit, None)
        self._free_ms.pop(unit, None)

    def victims(self, now: UnitNow) -> list[int]:
        """Whom to stop for a job; none: nobody may be, or it would not help."""
        shape, pods = now.shape, [pod for pod, _ in now.waits]
        wants = self._view.claimed.wants(pods)
        if not isinstance(shape, Shape) or not shape.may_preempt or len(wants) != len(pods):
            return []
        left = sorted(self._candidates(shape))[:MOST_CONSIDERED]
        for _ in range(ROUNDS):
            sets = [self._set(some, wants, shape) for some in _groups(left)]
            found = min(filter(None, sets), key=_judged, default=())
            movers = self._movers(wants, found)
            if not movers:
                return [one.job for one in found] if self._is_worth(wants, found, now) else []
            left = [one for one in left if one.job not in movers]
        return []

    def _candidates(self, shape: Shape) -> Iterable[_Victim]:
        """Those who may be stopped now, and hold devices that share counters."""
        world, book = self._lives.world, self._view.claimed.book
        for j, unit in self._unit_of.items():
            if world.jobs.state.item(j) != JobState.RUNNING or world.jobs.is_leaving[j]:
                continue
            mine = world.shape_of(j)
            if (mine.team != shape.team or mine.priority >= shape.priority or j in world.kept
                    or not mine.is_preemptible):  # fmt: skip
                continue
            if protection.until_ms(world, self.policy, j, Why.PREEMPTED) > world.now_ms:
                continue
            pods = [pod for pod in self._view.unit_pods(unit) if not pod.is_over]
            given = {one for pod in pods for one in claimed.given_to(book, pod)}
            if devices := frozenset(one for one in given if book.shares_counters(one)):
                lost_ms = cost.lost_ms(world, j)
                usd = cost.usd_micro(world, mine, world.placements[j], lost_ms)
                wants = tuple(self._view.claimed.wants(pods, is_held=True))
                yield _Victim(mine.priority, usd, j, wants, devices)

    def _set(
        self, some: Sequence[_Victim], wants: Sequence[PodWants], shape: Shape
    ) -> tuple[_Victim, ...]:
        """The first of these, cheapest first, with whom gone it fits; then who is needed of them.

        Whoever can be spared stays, the dearest first.
        """
        going = list[_Victim]()
        for one in some[: self.policy.victims_at_most]:
            going.append(one)
            if self._fits(wants, going, shape):
                break
        else:
            return ()
        for one in going[::-1]:
            rest = [other for other in going if other is not one]
            if rest and self._fits(wants, rest, shape):
                going = rest
        return tuple(going)

    def _fits(self, wants: Sequence[PodWants], going: Sequence[_Victim], shape: Shape) -> bool:
        seated = self._shelves(going, is_narrow=True).serve(wants)
        return bool(seated) and self._may_use(seated, shape) and self._has_room(seated, going)

    def _shelves(self, going: Sequence[_Victim], *, is_narrow: bool = False) -> Shelves:
        """What could be offered with these gone; ``is_narrow``: where they are, if that is less."""
        book = self._view.claimed.book
        freed = frozenset[claimed.DeviceId]().union(*(one.devices for one in going))
        machines = [*book.machines()]
        if is_narrow and len(machines) > MOST_MACHINES:
            machines = sorted({book.machine_of(device) for device in freed})
        return self._view.claimed.shelves(freed, machines)

    def _may_use(self, seated: Seated, shape: Shape) -> bool:
        """Whether the maximum quota of its team leaves it that much of what would be cut."""
        world, asked = self._lives.world, dict[str, int]()
        for _, _, device in seated:
            kind = kind_of(cut_gpus.type_of(device.gpu_type, device.profile))
            asked[kind] = asked.get(kind, 0) + 1000
        q = world.queue_number.get(shape.team, -1)
        return q < 0 or all(
            shares.within_limit(world, q, world.kind_number[kind], milli)
            for kind, milli in asked.items() if kind in world.kind_number
        )  # fmt: skip

    def _has_room(self, seated: Seated, going: Sequence[_Victim]) -> bool:
        """Whether the machines have CPU and memory for it beside what stays."""
        view, gone = self._view, {want.key for one in going for want in one.wants}
        asked = dict[str, list[KubePod]]()
        for key in dict.fromkeys(key for key, _, _ in seated):
            machine = next(machine for of, machine, _ in seated if of == key)
            asked.setdefault(machine, []).append(view.pods[key])
        for machine, pods in asked.items():
            here = (view.pods[key] for key in view.on_node.get(machine, ()) if key not in gone)
            pods += [pod for pod in here if not pod.is_over]
            row = view.machines[machine]
            if sum(pod.request.cpu_milli for pod in pods) > row.cpu_milli:
                return False
            if sum(pod.request.memory_mib for pod in pods) > row.memory_mib:
                return False
        return True

    def _movers(self, wants: Sequence[PodWants], going: Sequence[_Victim]) -> set[int]:
        """Victims that would find devices elsewhere, beside the job that they make room for."""
        shelves = self._shelves(going)
        shelves.serve(wants)
        return {one.job for one in going if shelves.serve(one.wants)}

    def _is_worth(
        self, wants: Sequence[PodWants], going: Sequence[_Victim], now: UnitNow
    ) -> bool:  # fmt: skip
        """Whether the wait that is spared covers the share of the loss that the policy asks for.

        At the rate of what the victims hold, for as much of it as would be cut for the job.
        """
        if not going:
            return False
        world, size = self._lives.world, self._view.claimed.book.size_of
        seated = self._shelves(going, is_narrow=True).serve(wants)
        held = sum(size(device) for one in going for device in one.devices)
        part = sum(size(device.id) for _, _, device in seated) / Fraction(held)
        spared_ms = cost.wait_spared_ms(world, now.estimate_ms, [one.job for one in going])
        gain = sum(
            cost.usd_micro(world, world.shape_of(one.job), world.placements[one.job], spared_ms)
            for one in going
        )
        lost = sum(one.usd_micro for one in going)
        return cost.is_worth(int(gain * part), lost, self.policy.preempt_gain_ppm)


def _groups(some: Sequence[_Victim]) -> Iterable[Sequence[_Victim]]:
    """Those of each pool of devices by themselves, and all of them."""
    pools = sorted({device[:2] for one in some for device in one.devices})
    for pool in pools if len(pools) > 1 else ():
        yield [one for one in some if any(device[:2] == pool for device in one.devices)]
    yield some


def _judged(some: Sequence[_Victim]) -> tuple[int, int, int, tuple[int, ...]]:
    """A set by its most important victim, its dollars and its size; ties by number."""
    jobs = tuple(sorted(one.job for one in some))
    return max(one.priority for one in some), sum(one.usd_micro for one in some), len(some), jobs
