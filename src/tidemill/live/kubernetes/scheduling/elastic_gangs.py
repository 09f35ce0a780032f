"""Gangs of several sizes in the comparison: their seats, and the scale of their owner."""

from collections import Counter
from collections.abc import Generator, Iterator

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import seats, sizes
from tidemill.live.kubernetes.scheduling.resizing import LONGEST_MS, Resize
from tidemill.live.kubernetes.scheduling.seating import PodSeating
from tidemill.live.kubernetes.scheduling.seats import Seat
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.sizes import KnownSizes, OwnerScale
from tidemill.live.kubernetes.scheduling.sparing import Spared
from tidemill.live.kubernetes.scheduling.units import UnitNow, comes_back
from tidemill.live.kubernetes.scheduling.view import PodUnit
from tidemill.model import events as ev
from tidemill.model.rows import Shape
from tidemill.model.states import ACTIVE, JobState

Told = Iterator[ev.Event]


class ElasticGangs:
    """What the comparison does with gangs that may have several sizes."""

    def __init__(self, seating: PodSeating, spared: Spared) -> None:
        self._seating, self._spared = seating, spared
        self.world, self.view = seating.world, seating.view
        self.resizes: list[Resize] = []
        """Owners to be asked for another number of pods; whoever asks them empties this."""
        self._resized_ms: dict[int, int] = {}
        """Since when jobs are asked to have another size, or start with places that no pod has."""
        self._full: dict[str, int] = {}
        """Full sizes of gangs by the uid of their owner, which was asked for another number."""

    def let_resize(self) -> None:
        """Gangs whose owner has a scale may have another size than it asks for."""
        self.view.heeds_scales = True

    def look_at_overdue(self, at_ms: int) -> None:
        """Look again at jobs that were asked for another size, and did not get it in time."""
        for j, since_ms in [*self._resized_ms.items()]:
            if self.world.jobs.state.item(j) not in ACTIVE:
                del self._resized_ms[j]
            elif at_ms - since_ms > LONGEST_MS and j in self._seating.unit_of:
                self.view.dirty_units[self._seating.unit_of[j]] = None
                self.view.changed()

    def resize(self, at_ms: int, j: int, now: UnitNow, seen: Counter[Seat]) -> Told:
        """Bring an elastic gang to the size that is planned, and tell what its owner made of it."""
        world, scale = self.world, now.scale
        move = world.moving.get(j)
        lost = seats.counted(move.lost) if move is not None else Counter[Seat]()
        wanted = seats.of_job(world, j) - lost
        is_still = all(pod.leaves_ms is None for pod, _ in now.held)
        if move is not None and seen == wanted:
            yield ev.JobMoved(at_ms, j, world.jobs.attempt.item(j))
        elif scale is not None and is_still and self._is_other(j, scale, seen, wanted):
            yield from self._sit(at_ms, j, now, seen)
        elif move is not None and is_still and self._is_overdue(at_ms, j):
            self._spared.refused(self._seating.unit_of[j], "its owner")
            yield from self._sit(at_ms, j, now, seen)
        elif is_still and self._is_unmade(at_ms, j, now, seen, wanted):
            if not (yield from self._do_with(at_ms, j, now, seen)):
                return
        elif not (yield from self._do_without_shut(at_ms, j, now, wanted, wanted - seen)):
            return
        if j not in world.moving:
            wanted = seats.of_job(world, j)
            if not self._is_short(j, now, seen, wanted):
                self._resized_ms.pop(j, None)
        self._seat(j, now, wanted - seen)
        if scale is not None:
            self._ask_for(j, now, scale, wanted)
        yield from self._seating.start(at_ms, j, now, is_whole=not wanted - seen)

    def _sit(self, at_ms: int, j: int, now: UnitNow, where: Counter[Seat]) -> Told:
        """An elastic gang holds these seats from now on, whatever it was asked for."""
        pieces, over = seats.pieces(self.world, j, where, self._seating.devices(now))
        yield from self._seating.stay(at_ms, j, pieces, over)

    def _is_short(self, j: int, now: UnitNow, seen: Counter[Seat], wanted: Counter[Seat]) -> bool:
        """Whether a gang that starts has places for pods that nobody has made."""
        is_starting = self.world.jobs.state.item(j) == JobState.STARTING
        return is_starting and bool(wanted - seen) and not now.waits and not now.is_lost

    def _is_unmade(
        self, at_ms: int, j: int, now: UnitNow, seen: Counter[Seat], wanted: Counter[Seat]
    ) -> bool:
        """Whether a gang that starts is not to get the rest of its pods: its owner was given a
        number below the least, or does not make them in time.
        """
        if j in self.world.moving or not self._is_short(j, now, seen, wanted):
            return False
        is_below = now.scale is not None and now.scale.is_below
        return is_below or self._is_overdue(at_ms, j)

    def _do_with(self, at_ms: int, j: int, now: UnitNow, seen: Counter[Seat]
                 ) -> Generator[ev.Event, None, bool]:  # fmt: skip
        """Let a gang start with the pods that it has; whether it does. Too few leave again."""
        r = self.world.shape_of(j).elastic_role
        assert r is not None, "it is elastic"
        if seen.total() >= self.world.shape_of(j).roles[r].least or not comes_back(now):
            yield from self._sit(at_ms, j, now, seen)
            return True
        yield ev.AskedEvict(at_ms, j, self.world.jobs.attempt.item(j), ev.Why.REPACKED)
        return False

    def _do_without_shut(
        self, at_ms: int, j: int, now: UnitNow, wanted: Counter[Seat], vacant: Counter[Seat]
    ) -> Generator[ev.Event, None, bool]:
        """Let an elastic gang go on without seats that cannot be filled; whether it does."""
        shut = Counter(
            {seat: count for seat, count in vacant.items() if not self._seating.is_open(seat)}
        )
        if not shut:
            return True
        shape, left = self.world.shape_of(j), wanted - shut
        r = shape.elastic_role
        assert r is not None, "it is elastic"
        if left.total() >= shape.roles[r].least:
            yield from self._sit(at_ms, j, now, left)
            return True
        if comes_back(now) and now.waits and not self.world.jobs.is_leaving[j]:
            yield ev.AskedEvict(at_ms, j, self.world.jobs.attempt.item(j), ev.Why.REPACKED)
        return False

    def _is_other(self, j: int, scale: OwnerScale, seen: Counter[Seat], wanted: Counter[Seat]
                  ) -> bool:  # fmt: skip
        """Whether the owner of a gang has given it another size, or others of its pods away.

        Who runs with fewer pods than seats, and is not asked to grow, was made smaller by others.
        """
        if seen.total() != scale.now or seen == wanted:
            return False
        if j in self.world.moving:
            return seen.total() == wanted.total()
        is_running = self.world.jobs.state.item(j) == JobState.RUNNING
        return is_running and scale.now < wanted.total()

    def _is_overdue(self, at_ms: int, j: int) -> bool:
        return at_ms - self._resized_ms.setdefault(j, at_ms) > LONGEST_MS

    def _ask_for(self, j: int, now: UnitNow, scale: OwnerScale, wanted: Counter[Seat]) -> None:
        """Ask the owner of a gang for as many pods as it has seats.

        Where the owner chooses who leaves, those who are to leave are evicted first, and it is
        asked when others are there in their place: on no node, they are the first to go. A size
        below the least is its owner's own wish, and left alone. A smaller one of a gang at work
        holds until the plan has it grow (the policy's ``grow_after``).
        """
        count, move = wanted.total(), self.world.moving.get(j)
        is_running = self.world.jobs.state.item(j) == JobState.RUNNING
        is_theirs = scale.now < count and is_running and move is None
        if scale.now == count or scale.is_below or is_theirs:
            return
        leavers = list[KubePod]()
        if scale.now > count and not scale.is_by_number:
            left = seats.counted(move.lost) if move is not None else Counter[Seat]()
            for pod, seat in reversed(now.held):
                if left[seat] > 0:
                    left[seat] -= 1
                    leavers.append(pod)
            leavers = [pod for pod in leavers if pod.leaves_ms is None]
            stay = sum(pod.leaves_ms is None for pod, _ in now.held) + len(now.waits)
            if not leavers and stay < scale.now:
                return
        self._full[scale.owner.uid] = scale.full
        self.resizes.append(Resize(
            j, self._seating.unit_of[j], scale.owner, scale.owner.scale, count - scale.fixed,
            tuple(leavers),
        ))  # fmt: skip

    def _seat(self, j: int, now: UnitNow, vacant: Counter[Seat]) -> None:
        """Bind pods of an elastic gang to seats that it has; those beyond them wait."""
        if self._seating.unit_of[j] in self._seating.barred:
            return
        left, free = Counter(vacant), self._seating.free_devices(j, now)
        for pod, r in now.waits:
            seat = next(
                (one for one in sorted(left) if one[0] == r and self._seating.is_open(one)), None
            )
            if seat is None:
                break
            left -= Counter([seat])
            self._seating.vacant.append(self._seating.seat(j, pod, seat[1], free.get(seat, [])))

    def sized(
        self, shape: Shape | Unplaceable, scale: OwnerScale | Unplaceable | None
    ) -> Shape | Unplaceable:
        """With the sizes of an elastic gang."""
        if isinstance(scale, Unplaceable) or scale is None or isinstance(shape, Unplaceable):
            return scale if isinstance(scale, Unplaceable) else shape
        return sizes.elastic(shape, scale)

    def scale(self, unit: PodUnit) -> OwnerScale | Unplaceable | None:
        """The scale of an elastic gang; None: it has one size, or scales are not heeded."""
        if not self.view.heeds_scales:
            return None
        known = KnownSizes(self._full_before(unit.key), self._full)
        found = sizes.of_unit(self.view, unit, known)
        if isinstance(found, OwnerScale) and found.is_below:
            self._full.pop(found.owner.uid, None)  # whoever says so says anew how many it may be
        return found

    def _full_before(self, key: UnitKey) -> int:
        """The full size of an elastic gang as it was placed first; 0: it was not."""
        j = self._seating.lives.job(key)
        if j is None or not self.world.jobs.attempt.item(j):
            return 0
        shape = self.world.shape_of(j)
        return 0 if (r := shape.elastic_role) is None else shape.roles[r].count
