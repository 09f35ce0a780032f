"""Devices that share counters (DRA): which are offered, so that all of them may be given out.

A driver publishes a whole device and its partitions side by side; each says what it consumes of the
counters that they share. Plans count devices, so those that are offered never consume more than
there is, together with those that are held. What is offered follows what waits, the oldest first: a
device is cut when somebody waits for a part of it, and offered whole again when somebody waits for
that. What nobody asks to be changed stays as it is, for a cut is other nodes to the loop. A job for
which nothing can be cut is not placed, and is told which counter lacks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from tidemill.live.kubernetes import dra
from tidemill.live.kubernetes.dra import CounterName, Device, DeviceId
from tidemill.live.kubernetes.scheduling.claims import ClaimBook, DeviceForm, Key
from tidemill.model.measures import count_text

MOST_JOBS = 200
"""So many jobs that wait are looked at, the oldest ones."""


class PodWants(NamedTuple):
    """A pod that waits for devices."""

    key: Key
    asks: tuple[tuple[DeviceForm, int], ...]
    may_use: Callable[[str], bool]
    """Whether it may be on a machine, by its name."""


class _Shelf:
    """The devices of one machine, what is left of their counters, and which are offered."""

    def __init__(
        self, book: ClaimBook, machine: str, before: set[DeviceId], held: set[DeviceId]
    ) -> None:
        self.devices, self.before = book.published(machine), before
        self.left = book.counters_of(machine)
        self.totals = dict(self.left)
        self.offered = dict[DeviceId, Device]()
        self.taken = set(held)
        for device in self.devices:
            if device.id in held:
                self._offer(device)

    def _offer(self, device: Device) -> None:
        self.offered[device.id] = device
        for name, amount in device.consumes:
            self.left[name] = self.left.get(name, Fraction(0)) - amount

    def withdraw(self, device: Device) -> None:
        """What was taken for somebody who does not get all is not."""
        self.taken.discard(device.id)
        del self.offered[device.id]
        for name, amount in device.consumes:
            self.left[name] += amount

    def lacking(self, device: Device) -> CounterName | None:
        """The counter of which less is left than a device consumes."""
        for name, amount in device.consumes:
            if self.left.get(name, Fraction(-1)) < amount:
                return name
        return None

    def is_begun(self, device: Device) -> bool:
        """Whether counters of a device are consumed in part."""
        return any(self.left.get(name) != self.totals.get(name) for name, _ in device.consumes)

    def take(self, form: DeviceForm, count: int, *, is_cut: bool) -> list[Device]:
        """So many devices for somebody who waits; none: there are not. ``is_cut``: cut anew."""
        able = [device for device in self.devices
                if device.id not in self.taken and (is_cut or device.id in self.before)
                and form.holds(device)]  # fmt: skip
        able.sort(key=lambda device: (device.id not in self.before, not self.is_begun(device)))
        for some in dra.alike(able, form.alike).values() if form.alike else (able,):
            found = list[Device]()
            for device in some:
                if len(found) < count and self.lacking(device) is None:
                    self._offer(device)
                    self.taken.add(device.id)
                    found.append(device)
            if len(found) == count:
                return found
            for device in found:
                self.withdraw(device)
        return []

    def fill(self) -> set[DeviceId]:
        """Offer what is left: what was offered, then whole devices, then the rest of those cut."""
        profiles = {(name, device.profile) for device in self.offered.values()
                    for name, _ in device.consumes}  # fmt: skip

        def is_rest(device: Device) -> bool:
            return any((name, device.profile) in profiles for name, _ in device.consumes)

        for wanted in (lambda one: one.id in self.before, lambda one: one.is_whole, is_rest):
            for device in self.devices:
                if device.id not in self.offered and wanted(device) and not self.lacking(device):
                    self._offer(device)
        return set(self.offered)


class Partitions:
    """What is offered of each machine whose devices share counters."""

    def __init__(self) -> None:
        self.offered: dict[str, set[DeviceId]] = {}
        self.lacks: dict[Key, str] = {}
        """By pod: which counter is too little for it."""

    @staticmethod
    def of_machine(book: ClaimBook, machine: str) -> set[DeviceId]:
        """What is offered of a machine while nobody waits."""
        return _Shelf(book, machine, set(), {*book.holder}).fill()

    def look(
        self, book: ClaimBook, jobs: Iterable[Sequence[PodWants]], giving: set[DeviceId]
    ) -> tuple[list[str], list[Key]]:
        """Offer anew; machines of which others are offered now, and pods that lack something else.

        ``jobs``: the pods of each that waits, the oldest first; ``giving``: devices on their way to
        pods.
        """
        shelves = self.shelves(book, giving | book.holder.keys(), book.machines())
        short = list[tuple[Sequence[PodWants], str]]()
        for pods in islice(jobs, MOST_JOBS):
            if shelves.serve(pods) or not (words := shelves.lacking(pods)):
                continue
            if all(_could_be_served(book, pod) for pod in pods):  # else the plan says: never
                short.append((pods, words))
        before, self.offered = self.offered, shelves.fill()
        told, self.lacks = self.lacks, {
            pod.key: words for pods, words in short if not shelves.are_on_offer(pods)
            for pod in pods
        }  # fmt: skip
        lacks, offered = self.lacks, self.offered
        news = [m for m in {**before, **offered} if before.get(m) != offered.get(m)]
        return sorted(news), sorted(k for k in {**told, **lacks} if told.get(k) != lacks.get(k))

    def shelves(
        self, book: ClaimBook, held: Iterable[DeviceId], machines: Iterable[str]
    ) -> "Shelves":
        """What can be offered of some machines while these are held."""
        some = {*held}
        return Shelves({
            machine: _Shelf(book, machine, self.offered.get(machine, set()), some)
            for machine in sorted(machines)
        })  # fmt: skip


Seated = list[tuple[Key, str, Device]]
"""Pods, the machine of each, and a device that it would have; several rows for several devices."""


class Shelves:
    """The devices of all machines, while they are handed out to those who wait."""

    def __init__(self, shelves: Mapping[str, _Shelf]) -> None:
        self._shelves = shelves

    def serve(self, pods: Sequence[PodWants]) -> Seated:
        """Take devices for all pods of a job, or for none."""
        taken, found = list[tuple[_Shelf, Device]](), Seated()
        for pod in pods:
            machine, mine = _seat(self._shelves, pod)
            taken += [(self._shelves[machine], device) for device in mine]
            found += [(pod.key, machine, device) for device in mine]
            if not mine and pod.asks:
                for shelf, device in taken:
                    shelf.withdraw(device)
                return []
        return found

    def lacking(self, pods: Sequence[PodWants]) -> str:
        """Which counter a job that was not served lacks; "": it is not counters that lack."""
        taken, words = list[tuple[_Shelf, Device]](), ""
        for pod in pods:
            machine, mine = _seat(self._shelves, pod)
            taken += [(self._shelves[machine], device) for device in mine]
            if not mine and pod.asks:
                words = _lacking(self._shelves, pod)
                break
        for shelf, device in taken:
            shelf.withdraw(device)
        return words

    def fill(self) -> dict[str, set[DeviceId]]:
        """By machine: what is offered in the end."""
        return {machine: shelf.fill() for machine, shelf in self._shelves.items()}

    def are_on_offer(self, pods: Sequence[PodWants]) -> bool:
        """Whether a job would fit on what is offered if nobody held any: then it is busy, and the
        plan says who has it next.
        """
        left = {m: list(shelf.offered.values()) for m, shelf in self._shelves.items()}
        return all(_put(left, pod) for pod in pods)


def _put(left: dict[str, list[Device]], pod: PodWants) -> bool:
    """Take the devices of one machine that a pod asks for off a list; whether there are such."""
    for machine, there in left.items():
        rest, is_able = there, pod.may_use(machine)
        for form, count in pod.asks if is_able else ():
            able = [device for device in rest if form.holds(device)]
            if form.alike:
                able = max(dra.alike(able, form.alike).values(), key=len, default=[])
            is_able = is_able and len(able) >= count
            taken = {device.id for device in able[:count]}
            rest = [device for device in rest if device.id not in taken]
        if is_able:
            left[machine] = rest
            return True
    return False


def _seat(shelves: Mapping[str, _Shelf], pod: PodWants) -> tuple[str, list[Device]]:
    """A machine and its devices for a pod; if possible such as are offered already."""
    for is_cut in (False, True):
        for machine, shelf in shelves.items():
            if not pod.may_use(machine):
                continue
            found = list[Device]()
            for form, count in pod.asks:
                some = shelf.take(form, count, is_cut=is_cut)
                found += some
                if not some:
                    for device in found:
                        shelf.withdraw(device)
                    break
            else:
                return machine, found
    return "", []


def _could_be_served(book: ClaimBook, pod: PodWants) -> bool:
    """Whether a machine would have the devices of a pod, if nobody held any."""
    machines = (machine for machine in book.machines() if pod.may_use(machine))
    return any(_seat({m: _Shelf(book, m, set(), set())}, pod)[0] for m in machines)


def _lacking(shelves: Mapping[str, _Shelf], pod: PodWants) -> str:
    """Which counter a pod lacks, where the most of it is left; "": it is not counters that lack."""
    found = list[tuple[Fraction, str]]()
    for machine, shelf in shelves.items():
        for form, count in pod.asks if pod.may_use(machine) else ():
            fewer = (shelf.take(form, k, is_cut=True) for k in range(count - 1, 0, -1))
            taken = next(filter(None, fewer), [])
            found += [
                told for device in shelf.devices
                if form.holds(device) and device.id not in shelf.taken
                and (told := _words(shelf, machine, device)) is not None
            ]  # fmt: skip
            for device in taken:
                shelf.withdraw(device)
    if not found:
        return ""
    words, others = max(found)[1], len(found) - 1
    return (
        f"{words}; {count_text(others, 'other device')} that would do lack as much or more"
        if others
        else words
    )


def _words(shelf: _Shelf, machine: str, device: Device) -> tuple[Fraction, str] | None:
    """Which counter a device lacks, and how much of what it needs is there; None: it lacks none."""
    name = shelf.lacking(device)
    if name is None:
        return None
    wants, left = dict(device.consumes)[name], shelf.left.get(name)
    has = "nobody says how much there is" if left is None else f"{shown(left)} is left"
    return Fraction(-1) if left is None else left / (wants or 1), (
        f"device `{device.name}` on {machine} needs {shown(wants)} of counter `{name.counter}` in"
        f" `{name.counter_set}`, of which {has}"
    )


def shown(amount: Fraction) -> str:
    """An amount as Kubernetes writes it."""
    for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if amount >= 1024**power and amount % 1024 ** (power - 1) == 0:
            return f"{float(amount / 1024**power):g}{suffix}"
    return f"{float(amount):g}"
