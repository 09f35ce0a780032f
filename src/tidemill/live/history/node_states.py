"""The nodes of a history: their states as a source shows them, and who sits on their devices.

A node that is down with work on it is closed (for that reason: it is unhealthy in the books) until
the work that the source still shows there has ended. What a source shows of the time before the
watermark is so from the watermark on.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from tidemill.live.history import shown_gpus
from tidemill.live.history.attempts import UNTYPED, kind_of
from tidemill.live.history.rows import SeenNode
from tidemill.live.history.seating import Seating, SeatRequest, SeenSeat
from tidemill.live.history.shown_gpus import Advertised, DeviceTurn, ShownDevices
from tidemill.live.history.walking.columns import SEAT
from tidemill.model.states import HOSTING, LAUNCHED, NodeState
from tidemill.model.tables import I64
from tidemill.model.whys import Why
from tidemill.model.world import World


class NodeMove(NamedTuple):
    """A node comes to another state."""

    node: int
    state: NodeState
    why: Why = Why.UNSAID


class NodeSight(Enum):
    """Whether somebody sees what is free on a node, from a moment on."""

    LOST = "lost"
    REGAINED = "regained"


class NodeStates:
    """The states of nodes, by number, from the watermark to the end of a window.

    ``nodes``: as they are shown; None: known to the journal, and not shown any more. Times since
    1970; ``begins_ms``: the zero of the journal.
    """

    def __init__(
        self,
        nodes: Sequence[SeenNode | None],
        world: World,
        begins_ms: int,
        mark_ms: int,
        end_ms: int,
    ) -> None:
        known, self._begins_ms = world.node_count, begins_ms
        states = [NodeState(state) for state in world.nodes.state[:known].tolist()]
        new = [node for node in nodes[known:] if node is not None]
        self._lost = {
            n for n, state in enumerate(states)
            if state is NodeState.CORDONED and told_state(world, n) is not state
        }  # fmt: skip
        """Nodes that are closed because they are down."""
        self._states = states + [
            NodeState.ASKED if is_no_node_yet(node, mark_ms) else NodeState.READY for node in new
        ]
        sizes = world.nodes.devices[:known].tolist() + [node.gpus for node in new]
        kinds = [world.kinds[k] for k in world.nodes.kind[:known].tolist()]
        kinds += [kind_of(node.gpu_type) for node in new]
        self._kinds = kinds
        self.seating = Seating(sizes, kinds, ((j, _seats(world, j)) for j in world.placements))
        self._shown = ShownDevices(world, sizes, self.seating)
        self._is_listed = [
            n >= known or (node is not None and not node.is_inferred)
            for n, node in enumerate(nodes)
        ]
        self._failed = {n: node.failed for n, node in enumerate(nodes)
                        if node is not None and node.failed}  # fmt: skip
        self._wanted = [told_state(world, n) for n in range(known)] + self._states[known:]
        self._kept = world.nodes.is_spare[:known].astype(bool).tolist()
        self._kept += [node.is_always_spare for node in new]
        self._keeps = [
            is_kept if node is None else node.is_spare_at(mark_ms)
            for node, is_kept in zip(nodes, self._kept, strict=True)
        ]
        self._turned = [n for n, keeps in enumerate(self._keeps) if keeps != self._kept[n]]
        turns = list[tuple[int, int, NodeState | NodeSight | Advertised | bool]]()
        self._sights = list[tuple[str, NodeSight]]()
        self._names = [node.name if node is not None else "" for node in nodes]
        for n, node in enumerate(nodes):
            if node is None:
                continue
            since_ms = begins_ms + world.nodes.since_ms.item(n) if n < known else 0
            told = told_state(world, n) if n < known else self._states[n]
            self._wanted[n] = _wanted(node, told, mark_ms, since_ms)
            is_later = self._states[n] is NodeState.ASKED and joins_later(node, mark_ms)
            if is_later and node.since_ms is not None:
                self._wanted[n] = NodeState.ASKED
                turns.append((node.since_ms, n, NodeState.BOOTING if boots(node) else
                              NodeState.READY))  # fmt: skip
            for told_ms, stop_ms, state in node.out:
                start_ms = max(told_ms, node.since_ms or 0)
                if stop_ms is None or stop_ms > start_ms:
                    turns.append((start_ms, n, state))
                if stop_ms is not None and stop_ms > start_ms:
                    turns.append((stop_ms, n, NodeState.READY))
            self._shown.begins(n, node, mark_ms)
            turns += shown_gpus.turns_of(n, node)
            if node.until_ms is not None:
                turns.append((node.until_ms, n, NodeState.GONE))
            edges = {ms for span in node.spare for ms in span if ms is not None}
            turns += [(ms, n, node.is_spare_at(ms)) for ms in sorted(edges)]
            for lost_ms, back_ms in node.unseen:
                if lost_ms <= mark_ms < back_ms:
                    self._sights.append((node.name, NodeSight.LOST))
                turns += [(lost_ms, n, NodeSight.LOST), (back_ms, n, NodeSight.REGAINED)]
        inside = [turn for turn in turns if mark_ms < turn[0] <= end_ms]
        self._turns = sorted(
            inside, key=lambda turn: (turn[0], turn[1], turn[2] is not NodeState.READY)
        )

    def __len__(self) -> int:
        return len(self._states)

    def standing(self) -> list[tuple[int, str]]:
        """The nodes that are there, and their GPU types."""
        return [(n, self._kinds[n]) for n, state in enumerate(self._states) if state in LAUNCHED]

    def untyped(self) -> tuple[str, ...]:
        """What the books call GPUs of which nobody says the type, if a node has such."""
        return (UNTYPED,) if UNTYPED in self._kinds else ()

    def turns_ms(self) -> I64:
        """When nodes change in the window, from the zero of the journal."""
        return np.array([at - self._begins_ms for at, _, _ in self._turns], np.int64)

    def turn(self, i: int) -> list[NodeMove]:
        """The moves of the node that changes now; none where it becomes a spare, or is none."""
        _, n, what = self._turns[i]
        if isinstance(what, NodeSight):
            self._sights.append((self._names[n], what))
        elif isinstance(what, NodeState):
            self._wanted[n] = what
        elif isinstance(what, Advertised):
            self._shown.shows(n, what.gpus)
        else:
            self._keeps[n] = what
            self._turned.append(n)
        return self.settle(n)

    def kept(self) -> list[tuple[int, bool]]:
        """The nodes that became spares, or are none any more, since this was last asked."""
        found = [(n, self._keeps[n]) for n in self._turned if self._keeps[n] != self._kept[n]]
        for n, keeps in found:
            self._kept[n] = keeps
        self._turned.clear()
        return found

    def sights(self) -> list[tuple[str, NodeSight]]:
        """The nodes that nobody sees any more, or somebody does again, since last asked."""
        found, self._sights = self._sights, []
        return found

    def devices(self) -> list[DeviceTurn]:
        """The devices that failed, or work again, since this was last asked."""
        return self._shown.turned()

    def make_way(self, who: int, asked: SeatRequest) -> list[DeviceTurn]:
        """The devices that work again since an attempt is seen on them."""
        self._shown.make_way(who, asked)
        return self._shown.turned()

    def give_back(self, j: int) -> list[int]:
        """A job holds nothing any more; the nodes that may change now."""
        nodes = {seat.node for seat in self.seating.held(j)}
        self.seating.give_back(j)
        return shown_gpus.left(self.seating, self._shown, nodes)

    def leave_for(self, j: int, after: SeatRequest) -> tuple[list[int], bool]:
        """A job keeps what its next attempt holds too; the same, and whether anything was left."""
        nodes = {seat.node for seat in self.seating.held(j)}
        _, is_less = self.seating.leave_for(j, after)
        return shown_gpus.left(self.seating, self._shown, nodes if is_less else ()), is_less

    def settle(self, n: int) -> list[NodeMove]:
        """The moves that bring a node nearer to the state that it was shown in."""
        moves = self._moves(n)
        self._shown.settle(n, self._states[n])
        is_watched = self._states[n] is not self._wanted[n]
        self.seating.columns[n, SEAT.IS_WATCHED] = is_watched
        return moves

    def _moves(self, n: int) -> list[NodeMove]:
        state, wanted, why = self._states[n], self._wanted[n], Why.UNSAID
        is_busy = not self.seating.is_empty(n)
        if wanted is NodeState.UNHEALTHY and is_busy:
            is_open = state in (NodeState.READY, NodeState.CORDONED)
            wanted = NodeState.CORDONED if is_open else state
            why = Why.NODE_LOST if is_open else why
        if wanted is NodeState.GONE and is_busy:
            wanted = state
        is_same = wanted is not NodeState.CORDONED or (n in self._lost) == bool(why)
        if state is wanted and (is_same or self._wanted[n] is NodeState.GONE):
            return []
        if state not in LAUNCHED and state is not NodeState.ASKED:
            return []
        if wanted is NodeState.BOOTING and state is not NodeState.ASKED:
            return []  # older books have it as unhealthy: it stays so until it is a node
        self._states[n] = wanted
        self._lost.discard(n)
        if why:
            self._lost.add(n)
        if state is NodeState.ASKED:  # it joins now
            steps = dict.fromkeys((NodeState.BOOTING, NodeState.READY, wanted))
            if wanted is NodeState.BOOTING:
                steps.pop(NodeState.READY)
            return [NodeMove(n, step, why if step is wanted else Why.UNSAID) for step in steps]
        is_direct = NodeState.READY in (state, wanted)
        is_direct |= wanted in (NodeState.UNHEALTHY, NodeState.GONE)
        last = NodeMove(n, wanted, why)
        return [last] if is_direct else [NodeMove(n, NodeState.READY), last]

    def failing(self) -> list[tuple[int, int]]:
        """Devices of nodes that take work, or would if they were opened, free and had by nobody:
        nobody says which, or since when; the last ones.
        """
        found = list[tuple[int, int]]()
        for n, count in self._failed.items():
            free = self.seating.free_devices(n) if self._states[n] in HOSTING else []
            found += [(n, device) for device in free[-count:]]
        return found

    def gone(self) -> list[int]:
        """Nodes that are not listed any more, and on which no work is shown either."""
        return [
            n
            for n, state in enumerate(self._states)
            if state in LAUNCHED and not self._is_listed[n] and self.seating.is_empty(n)
        ]


def told_state(world: World, n: int) -> NodeState:
    """How a journal has a node: one that is closed because it is down is unhealthy."""
    state = NodeState(world.nodes.state.item(n))
    is_lost = world.nodes.why.item(n) == list(Why).index(Why.NODE_LOST)
    return NodeState.UNHEALTHY if is_lost and state is NodeState.CORDONED else state


def _wanted(node: SeenNode, told: NodeState, mark_ms: int, since_ms: int) -> NodeState:
    """How a node is shown to be at the watermark.

    One that was told to be out, and is shown to be out only since later, was out all along: what
    changed is the reason that somebody gave. (``since_ms``: since when it was told to be.)
    """
    at_mark = [
        state
        for start_ms, stop_ms, state in node.out
        if start_ms <= mark_ms and (stop_ms is None or stop_ms > mark_ms)
    ]
    if at_mark:
        return at_mark[-1]
    is_out_later = any(stop_ms is None for _, stop_ms, _ in node.out)
    was_back = any(
        stop_ms is not None and since_ms < stop_ms <= mark_ms for _, stop_ms, _ in node.out
    )
    is_out = told not in (NodeState.READY, NodeState.GONE)
    return told if is_out and is_out_later and not was_back else NodeState.READY


def _seats(world: World, j: int) -> list[SeenSeat]:
    roles = world.shape_of(j).roles
    return [
        SeenSeat(
            piece.node, piece.replicas, piece.devices, piece.role, piece.slices,
            roles[piece.role].milli,
        )
        for piece in world.placements[j]
    ]  # fmt: skip


def joins_later(node: SeenNode, mark_ms: int) -> bool:
    """Whether a node was not there yet at a moment."""
    return node.since_ms is not None and node.since_ms > mark_ms


def boots(node: SeenNode) -> bool:
    """Whether it is a machine that is launched, and no node yet."""
    return any(stop_ms is None and state is NodeState.BOOTING for _, stop_ms, state in node.out)


def is_no_node_yet(node: SeenNode, mark_ms: int) -> bool:
    """Whether it is not Ready from a moment on because it is not there, or boots."""
    return joins_later(node, mark_ms) or boots(node)


def booting(nodes: Iterable[SeenNode]) -> set[str]:
    """The names of those that boot."""
    return {node.name for node in nodes if boots(node)}
