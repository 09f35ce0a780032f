"""What is not known of a cluster as it is now: in words, and when nobody saw its nodes.

A kind that may not be read from the beginning is unknown. One that was read, and may not be any
more, is unknown from then on: what is free on nodes is then *not observed*.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.model.measures import count_text

Spans = tuple[tuple[int, int], ...]
"""Stretches of time; in order."""
_FADED = {
    "Node": "they are taken as they were last seen, and what is free on them is not observed",
    "Job": "which pods belong together is known of those seen before, and how a Job ended is not",
}
_OF_DEVICES = "who has devices is as it was last seen, and what is free beside is not observed"


class SeenKind(Protocol):
    """A kind, and how far it is known."""

    kind: ServedKind
    said: str
    expiries: int
    unseen: int
    is_unwatchable: bool
    hidden: Spans

    @property
    def is_settled(self) -> bool:
        """Whether it is known as it is now, or known not to be readable."""

    @property
    def is_forbidden(self) -> bool:
        """Whether it may not be read."""

    @property
    def is_lost(self) -> bool:
        """Whether it was read once, and may not be any more."""


def said(copies: Iterable[SeenKind], most_expired: int) -> Iterator[str]:
    """What is not known, with the rules that would allow it, and who has them."""
    copies = list(copies)
    blind = [one.kind.shown for one in copies if not one.is_settled]
    if blind:
        yield f"not watched now, and as they were last seen: {', '.join(sorted(blind))}"
    remedies = dict[str, None]()
    for one in copies:
        kind = one.kind
        if one.is_forbidden and kind.lost:
            remedies[kind.remedy] = None
            yield f"{_unread(one)}; to allow it, add to the ClusterRole: {kind.rule}"
        if one.is_unwatchable:
            remedies[kind.remedy] = None
            yield (
                f"may not watch {kind.shown}: they are listed at every question instead, and what"
                " comes and goes between two questions is not seen; to allow it, add to the"
                f" ClusterRole: {kind.rule}"
            )
        if one.expiries >= most_expired:
            yield (
                f"the server refuses to go on watching {kind.shown} (410, {one.said}): they are"
                " listed at every question instead, and what comes and goes between two questions"
                " is not seen"
            )
        if one.unseen and kind == kinds.PODS:
            yield (
                f"{count_text(one.unseen, 'pod')} deleted while the connection was lost: taken as"
                " ended when that was seen"
            )
    yield from remedies


def _unread(one: SeenKind) -> str:
    if not one.is_lost:
        return f"may not read {one.kind.shown}: {one.kind.lost}"
    default = _OF_DEVICES if one.kind.kind in kinds.OF_DEVICES else one.kind.lost
    return f"may not read {one.kind.shown} any more: {_FADED.get(one.kind.kind, default)}"


class HiddenNodes:
    """When nobody saw what was free on nodes: they could not be read, or who has their devices.

    ``with_devices``: nodes whose devices are claimed (DRA).
    """

    def __init__(self, copies: Iterable[SeenKind], with_devices: Iterable[str]) -> None:
        hidden = {one.kind: one.hidden for one in copies if one.hidden}
        self._of_all = hidden.get(kinds.NODES, ())
        self._of_claimed = [
            span for kind, spans in hidden.items() if kind.kind in kinds.OF_DEVICES
            for span in spans
        ]  # fmt: skip
        self._with_devices = {*with_devices} if self._of_claimed else set[str]()

    def spans(self, node: str) -> Spans:
        """Of one node; some may overlap."""
        return (*self._of_all, *(self._of_claimed if node in self._with_devices else ()))
