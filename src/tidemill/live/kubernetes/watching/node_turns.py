"""What a watch saw of a node between two questions: when it took no work, and what became of it.

Taints and conditions say since when a node is out. Nothing says when it was uncordoned, resized or
labelled anew: that is when the watch told so, by the server's clock, in whole seconds as all times
of the API. A node that was first seen in a list has no such past.
"""

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from tidemill.live.kubernetes.dra import DeviceSlice
from tidemill.live.kubernetes.nodes import KubeNode, StateTurn

Amount = TypeVar("Amount")


def after(before: KubeNode | None, node: KubeNode, seen_ms: int) -> KubeNode:
    """A node as it is shown now, with what is known of it since it was first seen."""
    if before is None or before.turned is None or before.created_ms != node.created_ms:
        turned = StateTurn(node.out_since()[1], _first_ms(node))
        return replace(node, turned=turned, given=((0, node.allocatable),))
    at_ms = seen_ms // 1000 * 1000
    changed = {**before.changed_ms, **dict.fromkeys(_changed(before, node), at_ms)}
    given = before.given
    if before.allocatable != node.allocatable:
        given = (*given, (at_ms, node.allocatable))
    node = replace(node, changed_ms=changed, given=given)
    state = node.out_since()[1]
    if state is before.turned.state:
        return replace(node, turned=before.turned, was_out=before.was_out)
    turned = StateTurn(state, _turned_ms(before, node, at_ms))
    was_out = before.was_out
    if before.turned.state is not None and before.turned.at_ms < turned.at_ms:
        was_out = (*was_out, (before.turned.at_ms, turned.at_ms, before.turned.state))
    return replace(node, turned=turned, was_out=was_out)


def untold(node: KubeNode, told_ms: int) -> KubeNode:
    """A node without what was told of it before a moment."""
    was_out = tuple(one for one in node.was_out if one[1] > told_ms)
    changed = {key: ms for key, ms in node.changed_ms.items() if ms > told_ms}
    given = later(node.given, told_ms)
    if (was_out, changed, given) == (node.was_out, node.changed_ms, node.given):
        return node
    return replace(node, was_out=was_out, changed_ms=changed, given=given)


def published(before: DeviceSlice | None, told: DeviceSlice, seen_ms: int) -> DeviceSlice:
    """A slice of devices (DRA) as it is shown now, with what was seen of it before."""
    if before is None or not before.given:
        return replace(told, given=((0, told.healthy),))
    if before.given[-1][1] == told.healthy:
        return replace(told, given=before.given)
    return replace(told, given=(*before.given, (seen_ms // 1000 * 1000, told.healthy)))


def later(given: tuple[tuple[int, Amount], ...], told_ms: int) -> tuple[tuple[int, Amount], ...]:
    """Amounts and since when they were so: that of a moment, and all later ones."""
    past = sum(at_ms <= told_ms for at_ms, _ in given)
    return given[max(0, past - 1) :]


def _first_ms(node: KubeNode) -> int:
    """Since when a node is as it is first seen, as far as it says so itself."""
    return next((since_ms for since_ms, _, _ in node.out()), node.created_ms or 0)


def _turned_ms(before: KubeNode, node: KubeNode, at_ms: int) -> int:
    """When a node came to its state: as it says itself, if that is news, or when it was seen."""
    assert before.turned is not None, "it was seen before"
    said_ms, state = node.out_since()
    if state is None and not before.is_ready:
        said_ms = node.ready_since_ms
    is_news = said_ms is not None and before.turned.at_ms < said_ms <= at_ms
    return said_ms if is_news and said_ms is not None else at_ms


def _changed(before: KubeNode, node: KubeNode) -> Iterator[str]:
    """The labels that differ; "": its devices do."""
    if (before.devices, before.gpu_type) != (node.devices, node.gpu_type):
        yield ""
    for key in {*before.labels, *node.labels}:
        if before.labels.get(key) != node.labels.get(key):
            yield key
