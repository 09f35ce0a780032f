"""What the comparison does with the seats of a job: which are open, and which pod is to have which.

Of gangs of one size and of several alike.
"""

from collections import Counter
from collections.abc import Iterator

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.parts import machine
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import seats
from tidemill.live.kubernetes.scheduling.lives import PresentLives
from tidemill.live.kubernetes.scheduling.seats import Seat
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.units import UnitNow, Vacant, key_of
from tidemill.live.kubernetes.scheduling.view import ClusterView, Key
from tidemill.model import events as ev
from tidemill.model.columns import SHAPE
from tidemill.model.rows import MAX_DEVICES, Piece
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

Told = Iterator[ev.Event]


class PodSeating:
    """The seats of jobs of ours."""

    def __init__(self, world: World, view: ClusterView, lives: PresentLives) -> None:
        self.world, self.view, self.lives = world, view, lives
        self.unit_of: dict[int, UnitKey] = {}
        self.vacant: list[Vacant] = []
        """Seats to be filled; whoever fills them empties this."""
        self.barred: dict[UnitKey, Unplaceable] = {}
        """Jobs of ours that are not to be placed for now: the server refused to bind them."""
        self.came: list[tuple[int, int, int | None]] = []
        """Jobs that came since somebody last asked, when their first pod was created and, of those
        that were found on nodes, bound; whoever asks empties this."""
        self.unbooked: dict[Key, None] = {}
        """Pods of others on devices that are not booked for them, since ours hold them: looked at
        again whenever anything changes."""

    def seat(self, j: int, pod: KubePod, n: int, devices: list[int]) -> Vacant:
        """The seat of a pod on a node, with the first of these devices."""
        place = self.lives.place_name(n)
        devices_of = devices.pop(0) if devices else 0
        return Vacant(j, key_of(pod), pod.uid, machine(place), place, devices_of)

    def devices(self, now: UnitNow) -> dict[Seat, int]:
        """The devices that pods hold by claim, by seat."""
        told = dict[Seat, int]()
        for pod, seat in now.held:
            told[seat] = told.get(seat, 0) | self.view.mask_of(pod)
        return told

    def free_devices(self, j: int, now: UnitNow) -> dict[Seat, list[int]]:
        """What a job holds by our plan and none of its pods has, by seat: a mask for each pod."""
        told, roles = self.devices(now), self.world.shape_of(j).roles
        return {
            seat: seats.handed_out(mask & ~told.get(seat, 0), roles[seat[0]].accelerators)
            for seat, mask in seats.masks(self.world, j).items()
        }

    def is_open(self, seat: Seat) -> bool:
        """Whether a seat can be taken: its node takes work, and nobody sits there without one."""
        is_ready = self.world.nodes.state.item(seat[1]) == NodeState.READY
        return is_ready and not self._is_short(self.lives.node_name(seat[1]))

    def _is_short(self, machine: str) -> bool:
        """Whether a pod of others sits on a machine without devices that are booked for it."""
        pods = (self.view.pods.get(key) for key in self.unbooked)
        return any(pod is not None and pod.node == machine for pod in pods)

    def comes_back(self, j: int) -> bool:
        """Whether somebody makes the pods of a job of ours anew."""
        pods = self.view.unit_pods(self.unit_of[j])
        return all(pod.owner is not None for pod in pods if not pod.is_over)

    def room(self, pod: KubePod, key: str) -> Counter[str]:
        """For how many more pods like this one nodes have devices now, by their label ``key``."""
        found, gpu = Counter[str](), pod.request.gpu
        for name, node in self.view.nodes.items() if gpu is not None else ():
            n = self.lives.node_number(name)
            able = gpu is not None and gpu.resource in node.capacity and key in node.labels
            if n is None or not able or not pod.request.selects(node.labels):
                continue
            if gpu is not None and self.world.nodes.state.item(n) == NodeState.READY:
                found[node.labels[key]] += seats.free_mask(self.world, n, MAX_DEVICES, gpu.each)[1]
        return found

    def start(self, at_ms: int, j: int, now: UnitNow, *, is_whole: bool) -> Told:
        """A gang all of whose pods are up works."""
        is_up = is_whole and all(pod.up_ms is not None for pod, _ in now.held)
        if is_up and self.world.jobs.state.item(j) == JobState.STARTING:
            yield ev.JobStarted(at_ms, j, self.world.jobs.attempt.item(j))

    def stay(self, at_ms: int, j: int, pieces: tuple[Piece, ...], over_milli: int) -> Told:
        """A job that was asked to leave, or to have another size, is asked for nothing any more."""
        heir = self.world.leaving_for.get(j, -1)
        yield from seats.changed(self.world, at_ms, j, pieces, over_milli)
        if heir >= 0 and self.world.matrices.shapes.item(heir, SHAPE.PROMISED) == 1:
            yield ev.AskedRelease(at_ms, heir)
