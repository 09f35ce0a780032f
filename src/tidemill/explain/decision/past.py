"""What the journal tells of a job, in words: what was tried for it, and who made room for it."""

from typing import NamedTuple

from tidemill.explain import phrasing, prices
from tidemill.explain.decision.answers import Freed, Tried
from tidemill.explain.decision.history import EventGroup, JobHistory, What, in_order
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.events import Why
from tidemill.model.measures import dollars_text, duration_text
from tidemill.model.reasons import Cause
from tidemill.model.world import World
from tidemill.scheduling.preemption import cost

FREED = 5  # jobs that made room, told one by one


class Room(NamedTuple):
    """The state before the plan in which others were asked to make room; None: nobody was."""

    before: World | None = None


_WORDS = {
    What.SUBMITTED: "submitted",
    What.CHANGED: "came to request something else, and kept its place",
    What.PASSED: "a later job was placed before it for the first time in this wait",
    What.PLACED: "placed",
    What.SEEN_PLACED: "seen placed by its own scheduler",
    What.SAID: "its own scheduler said why it waits",
    What.STARTED: "came up and worked",
    What.RELEASED: "room was made for it, and it still did not fit",
    What.STOPPED: "stopped, and waits again",
    What.LOST: "lost with a node or a GPU, and waits again",
    What.KEPT: "what was left of it went on where it was",
    What.FINISHED: "finished",
    What.CANCELLED: "cancelled",
}
_WITH_WHY = {
    What.MADE_ROOM: "another job was asked to make room for it",
    What.ASKED_TO_STOP: "asked to stop",
    What.ASKED_TO_MOVE: "asked to go on elsewhere or in another size",
    What.FAILED: "failed, and waits again",
    What.FAILED_FOR_GOOD: "failed for good",
}


def tried(
    history: JobHistory, before: World, j: int, now: Cause | None = None
) -> tuple[Tried, ...]:
    """What was tried, sort by sort, in the order in which it began.

    ``now``: why it waits, on nodes that it may use; the cycle's own word for that is told so, too.
    """
    groups = history.groups()
    s, since_ms = before.jobs.shape.item(j), before.jobs.since_ms.item(j)
    cause = before.shapes.cause.item(s)
    is_told = any(group.what is What.WAITED and group.last_ms >= since_ms for group in groups)
    if cause != Cause.NONE and not is_told and before.now_ms > since_ms:
        groups.append(EventGroup(What.WAITED, cause, 1, since_ms, since_ms))  # said before it came
    if now is not None:
        groups = [
            group._replace(detail=int(now))
            if group.what is What.WAITED and group.detail == cause else group
            for group in groups
        ]  # fmt: skip
    return tuple(_tried(group) for group in in_order(groups))


def _tried(group: EventGroup) -> Tried:
    what, detail = group.what, group.detail
    if what is What.WAITED:
        name, words = f"waited_{Cause(detail).name.lower()}", phrasing.CAUSES[Cause(detail)]
        words = f"waited: {words}"
    elif what in _WITH_WHY:
        why = codes.WHYS[detail]
        name, words = str(what), _WITH_WHY[what] + (f" ({why.words})" if why else "")
    else:
        name, words = str(what), _WORDS[what]
    return Tried(name, group.times, group.first_ms, group.last_ms, words)


def freed(now: World, history: JobHistory, room: Room) -> tuple[Freed, ...]:
    """The first of those that made room for a placement, and what it cost them."""
    found = []
    for one in history.room[:FREED]:
        why, name = codes.WHYS[one.why], now.job_names[one.job]
        lost_ms, lost_usd, lost = _lost(room.before, one.job, why)
        words = f"`{name}` {why.words}{lost}"
        is_move = one.kind == codes.KIND_CODE[ev.AskedMove]
        how = "shrunk" if why is Why.SHRUNK else "moved" if is_move else "stopped"
        team, at_ms = now.shape_of(one.job).team, one.deciding.at_ms
        found.append(Freed(name, team, at_ms, how, lost_ms, lost_usd, words))
    return tuple(found)


def _lost(before: World | None, j: int, why: Why) -> tuple[int | None, int | None, str]:
    """The work that a job lost, in time, in dollars and in words; None: nobody knows."""
    if why is Why.SHRUNK:
        return 0, 0, ", $0.00 of work lost"
    if before is None or j not in before.placements:
        return None, None, ""
    ms, loss = cost.lost_ms(before, j), prices.lost(before, [j])
    if not cost.is_loss_known(before, j):
        most = duration_text(ms + before.now_ms - before.jobs.origin_ms.item(j))
        return None, None, f", unknown work lost: at most {most}, nobody says what it saved"
    usd = loss.usd_micro
    lost = duration_text(ms) if usd is None else dollars_text(usd)
    return ms, usd, f", {lost} of work lost"
