"""Claims: what lower layers have decided in this cycle, for the layers above to respect."""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.model import events as ev


class Claims(NamedTuple):
    """Nodes that placements use, nodes that something was asked of, jobs that are stopped."""

    used: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    leaving: frozenset[int] = frozenset()


NO_CLAIMS = Claims()


def claims_of(actions: Sequence[ev.Action]) -> Claims:
    """Read the claims of a plan, or of the part of it that exists so far."""
    if not actions:
        return NO_CLAIMS
    used: set[int] = set()
    asked: set[int] = set()
    leaving: set[int] = set()
    for action in actions:
        match action:
            case ev.AskedPlace():
                used.update(piece.node for piece in action.pieces)
            case ev.AskedEvict() | ev.AskedCancel():
                leaving.add(action.job)
            case ev.AskedMove():
                used.update(piece.node for piece in action.gained)
                leaving.add(action.job)
            case ev.AskedDrain() | ev.AskedRepair() | ev.AskedReturn() | ev.AskedSpare():
                asked.add(action.node)
            case (
                ev.AskedLaunch()
                | ev.AskedRelease()
                | ev.CauseChanged()
                | ev.JobPassed()
                | ev.HalfLifeSet()
                | ev.MixSampled()
            ):
                pass
    return Claims(frozenset(used), frozenset(asked), frozenset(leaving))
