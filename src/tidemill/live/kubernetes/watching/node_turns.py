"""What a watch saw of a node between two questions: when it took no work, and what became of it.

Taints and conditions say since when a node is out. Nothing says when it was uncordoned, resized or
labelled anew: that is when the watch told so, by the server's clock, in whole seconds as all times
of the API. A node that was first seen in a list has no such past.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tidemill.live.kubernetes.nodes import KubeNode, StateTurn


def after(before: KubeNode | None, node: KubeNode, seen_ms: int) -> KubeNode:
    """A node as it is shown now, with what is known of it since it was first seen."""
    if before is None or before.turned is None or before.created_ms != node.created_ms:
        return replace(node, turned=StateTurn(node.out_since()[1], _first_ms(node)))
    at_ms = seen_ms // 1000 * 1000
    changed = {**before.changed_ms, **dict.fromkeys(_changed(before, node), at_ms)}
    state = node.out_since()[1]
    if state is before.turned.state:
        return replace(
            node, turned=before.turned, was_out=before.was_out, changed_ms=changed
        )  # fmt: skip
    turned = StateTurn(state, _turned_ms(before, node, at_ms))
    was_out = before.was_out
    if before.turned.state is not None and before.turned.at_ms < turned.at_ms:
        was_out = (*was_out, (before.turned.at_ms, turned.at_ms, before.turned.state))
    return replace(node, turned=turned, was_out=was_out, changed_ms=changed)


def untold(node: KubeNode, told_ms: int) -> KubeNode:
    """A node without what was told of it before a moment."""
    was_out = tuple(one for one in node.was_out if one[1] > told_ms)
    changed = {key: ms for key, ms in node.changed_ms.items() if ms > told_ms}
    if was_out == node.was_out and changed == node.changed_ms:
        return node
    return replace(node, was_out=was_out, changed_ms=changed)


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
