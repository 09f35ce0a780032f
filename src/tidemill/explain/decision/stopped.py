"""Jobs that were stopped, or lost their node, and for which no new pods were made yet; and why
others failed.

The books have no such state: a job without pods waits for nothing, and counts as cancelled until
there are new ones. An answer says what became of it: why its pods went, and which job is what was
made in their place. Nor do the books keep why a job failed for good: the journal tells it.
"""

from typing import NamedTuple

from tidemill.explain import phrasing
from tidemill.explain.decision.history import JobHistory, What
from tidemill.explain.decision.reading import history_of
from tidemill.journal import Journal, cluster_kinds
from tidemill.model import codes, lives
from tidemill.model.states import JobState
from tidemill.model.whys import Why
from tidemill.model.world import World

_ENDS = (What.STOPPED, What.LOST)
_SAYS_NOTHING = frozenset({
    What.WAITED, What.PASSED, What.RELEASED, What.SAID, What.MADE_ROOM, What.CANCELLED,
})  # fmt: skip
"""What happens to a job while it waits, and that its pods went: not why they did."""
_ASKED = {
    Why.PREEMPTED: "it was preempted",
    Why.RECLAIMED: f"it was preempted ({Why.RECLAIMED.words})",
    Why.DRAINED: "it was stopped to drain its node",
}


_BY_OTHERS = (Why.PREEMPTED, Why.EVICTED, Why.NODE_LOST)
"""Ends of pods that are not their own doing: the owner of a pod, if it has one, makes another."""


class Stopped(NamedTuple):
    """What became of a job whose pods are gone."""

    detail: str
    """`preempted`, `stopped`, `lost`, or `cancelled`: nobody says more."""
    words: str


def stopped(journal: Journal, world: World, j: int, at_ms: int | None) -> Stopped | None:
    """Why a job of Kubernetes has no pods any more; None: it has some, or is none of Kubernetes."""
    if world.jobs.state.item(j) != JobState.CANCELLED or not _has_pods(world, j):
        return None
    name, since_ms = world.job_names[j], world.jobs.since_ms.item(j)
    ago = phrasing.since(world.now_ms - since_ms)
    detail, became = _ended(world, j, history_of(journal, world, j, at_ms), ago)
    after = lives.following(name, world.job_number)
    if after in world.job_number:
        next_life = f"; what came after it is `{after}`"
        return Stopped(detail, f"job `{name}` is over: {became}{next_life}")
    return Stopped(detail, f"job `{name}` has no pods now: {became}, and no new ones were made yet")


def _has_pods(world: World, j: int) -> bool:
    """Whether a job is one of Kubernetes, whose owners make pods again."""
    name = lives.origin(world.job_names[j], world.job_number)
    return cluster_kinds.of_job(world, name).kind == cluster_kinds.KUBERNETES


def _ended(world: World, j: int, history: JobHistory, ago: str) -> tuple[str, str]:
    """How the last of its pods came to an end: a word for programs, and one for people."""
    groups = [one for one in history.groups() if one.what not in _SAYS_NOTHING]
    last = max(groups, key=lambda one: (one.last_ms, one.what in _ENDS))
    if last.what is What.LOST and history.lost_with >= 0:
        node = lives.node_name(world, history.lost_with)
        return "lost", f"it lost its node `{node}` {ago} ago"
    if last.what is not What.STOPPED or last.last_ms != world.jobs.since_ms.item(j):
        return "cancelled", f"its pods were deleted {ago} ago"
    asked = [(one.last_ms, one.detail) for one in groups if one.what is What.ASKED_TO_STOP]
    why = codes.WHYS[max(asked)[1]] if asked else Why.UNSAID
    became = _ASKED.get(why, "it was stopped" + f" ({why.words})" * bool(why))
    if history.heir < 0:
        return "stopped", f"{became} {ago} ago"
    team = world.shape_of(history.heir).team
    heir = world.job_names[history.heir]
    return "preempted", f"{became} {ago} ago for `{heir}` of team `{team}`"


def why_failed(journal: Journal, world: World, j: int, at_ms: int | None) -> str:
    """Why a job failed for good, by who told of it; "": nobody says, or it did not."""
    if world.jobs.state.item(j) != JobState.FAILED:
        return ""
    groups = history_of(journal, world, j, at_ms).groups()
    whys = [codes.WHYS[one.detail] for one in groups if one.what is What.FAILED_FOR_GOOD]
    is_news = bool(whys) and whys[-1] is not Why.LOST_RACE  # that is said of it in any case
    if not is_news:
        return ""
    again = whys[-1] in _BY_OTHERS and _has_pods(world, j)
    made = "; what its owner, if it has one, makes in its place has another name"
    return whys[-1].words + made * again
