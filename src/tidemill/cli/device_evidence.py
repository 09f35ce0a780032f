"""Errors that drivers of GPUs reported, as evidence beside nodes and jobs."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidemill import api
from tidemill.journal import device_errors
from tidemill.journal.device_errors import DeviceErrors
from tidemill.model import lives
from tidemill.model.measures import count_text, duration_text
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.units.catalogue import xids

SHOWN = 5  # nodes of one answer; --json has all
LEGEND = (
    "errors of GPU drivers (XID) in the last 30 days, as a Prometheus told them: the meaning is"
    " NVIDIA's, what to look at is in its list of XIDs"
)


class NodeErrors(NamedTuple):
    """What drivers of the devices of one node reported."""

    node: str
    state: str
    errors: tuple[DeviceErrors, ...]


def of_nodes(journal: str, world: World) -> dict[int, tuple[DeviceErrors, ...]]:
    """By number of the node, the errors of the 30 days before a state; of simulated fleets none."""
    if not world.is_observed:
        return {}
    with api.open_journal(journal) as opened:
        return device_errors.of_nodes(opened, world.now_ms, lives.sources_names(world))


def of_job(journal: str, world: World, j: int) -> list[NodeErrors]:
    """Of the nodes that a job sits on; of one that waits, those that are out of service."""
    told = of_nodes(journal, world)
    if j in world.placements:
        here = {piece.node for piece in world.placements[j]}
    else:
        working = (NodeState.READY, NodeState.GONE)
        here = {n for n in told if NodeState(world.nodes.state[n]) not in working}
    found = [
        NodeErrors(world.node_rows[n].name, NodeState(world.nodes.state[n]).name.lower(), told[n])
        for n in sorted(here & {*told})
    ]
    return sorted(found, key=lambda one: one.node)


def lines(found: Sequence[NodeErrors], now_ms: int) -> Iterator[str]:
    """The same in words, a line for each node."""
    for one in found[:SHOWN]:
        yield f"evidence on node `{one.node}` ({one.state}): {words(one.errors, now_ms)}"
    if len(found) > SHOWN:
        yield (
            f"and errors of GPU drivers on {count_text(len(found) - SHOWN, 'more node')}:"
            " --json has all"
        )


def words(errors: Sequence[DeviceErrors], now_ms: int) -> str:
    """Errors of one node: number and meaning, how often, on which devices, since when."""
    return "; ".join(_words(one, now_ms) for one in errors)


def _words(one: DeviceErrors, now_ms: int) -> str:
    times = "once" if one.times == 1 else f"{one.times:,} times"
    which = which_devices(one.devices, one.uuids)
    last = duration_text(now_ms - one.last_ms)
    since = "" if one.times == 1 else f", the first {duration_text(now_ms - one.first_ms)} ago"
    return f"{xids.words(one.xid)} {times}{which}, {last} ago{since}"


def which_devices(minors: Sequence[int], uuids: Sequence[str]) -> str:
    """On which devices, by number and by name, as far as somebody said."""
    told = f" on GPU {', '.join(map(str, minors))}" if minors else ""
    if not uuids:
        return told
    return f"{told} ({', '.join(uuids)})" if told else f" on {', '.join(uuids)}"
