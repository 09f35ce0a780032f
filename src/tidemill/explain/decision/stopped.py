"""Jobs that were stopped for others, and whose owners have not made new pods for them yet; and why
others failed.

The books have no such state: a job without pods waits for nothing, and counts as cancelled until
there are new ones. An answer says what became of it. Nor do they keep why a job failed for good:
the journal tells it.
"""

from tidemill.explain import phrasing
from tidemill.explain.decision.history import What
from tidemill.explain.decision.reading import history_of
from tidemill.journal import Journal
from tidemill.model import codes
from tidemill.model.states import JobState
from tidemill.model.whys import Why
from tidemill.model.world import World


def words(journal: Journal, world: World, j: int, at_ms: int | None) -> str:
    """That a job was preempted, for whom, and that its pods are still to come; "": it was not."""
    if world.jobs.state.item(j) != JobState.CANCELLED or not world.jobs.evictions.item(j):
        return ""
    history, since_ms = history_of(journal, world, j, at_ms), world.jobs.since_ms.item(j)
    stopped = [one.last_ms for one in history.groups() if one.what is What.STOPPED]
    if since_ms not in stopped:  # it was deleted at another time
        return ""
    heir = ""
    if history.heir >= 0:
        team = world.shape_of(history.heir).team
        heir = f" for `{world.job_names[history.heir]}` of team `{team}`"
    ago = phrasing.since(world.now_ms - since_ms)
    return (
        f"job `{world.job_names[j]}` has no pods now: it was preempted {ago} ago{heir}, and its"
        " owner has not made new ones yet"
    )


def why_failed(journal: Journal, world: World, j: int, at_ms: int | None) -> str:
    """Why a job failed for good, by who told of it; "": nobody says, or it did not."""
    if world.jobs.state.item(j) != JobState.FAILED:
        return ""
    groups = history_of(journal, world, j, at_ms).groups()
    whys = [codes.WHYS[one.detail] for one in groups if one.what is What.FAILED_FOR_GOOD]
    is_news = bool(whys) and whys[-1] is not Why.LOST_RACE  # that is said of it in any case
    return str(whys[-1]) if is_news else ""
