"""What the owners of a job say of its time: how long it should run, and how often it saves."""

from collections.abc import Iterable, Sequence

from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import SECOND_MS, duration_ms
from tidemill.model.rows import Checkpointing

EXPECTED = "tidemill/expected-duration"
"""An annotation of pods or of their owner: `2h30m`, `45m`, or a number of seconds."""
INTERVAL = "tidemill/checkpoint-interval"
"""Another one: how often it saves, such a duration or `never`."""
NEVER = "never"
UNTOLD = Checkpointing(-1)


def of_job(pods: Sequence[KubePod], above: Sequence[OwnerObject]) -> int:
    """Milliseconds; 0: nobody says. A deadline is an upper bound of whatever is expected."""
    expected = [ms for text in _told(EXPECTED, pods, above) if (ms := parsed(text))]
    ends = [*(pod.deadline_s for pod in pods), *(owner.deadline_s for owner in above)]
    bounds = [SECOND_MS * seconds for seconds in ends if seconds]
    return min([*([max(expected)] if expected else []), *bounds], default=0)


def saving(pods: Sequence[KubePod], above: Sequence[OwnerObject]) -> Checkpointing:
    """How often it saves: of several intervals the longest; unknown where nobody says."""
    told = _told(INTERVAL, pods, above)
    if NEVER in told:
        return Checkpointing(0)
    intervals = [ms for text in told if (ms := parsed(text))]
    return Checkpointing(max(intervals)) if intervals else UNTOLD


def is_interval(text: str) -> bool:
    """Whether it can be read as how often a job saves; nothing is said by an empty one."""
    return text in ("", NEVER) or parsed(text) > 0


def _told(name: str, pods: Iterable[KubePod], above: Iterable[OwnerObject]) -> list[str]:
    return [*(pod.annotations.get(name, "") for pod in pods),
            *(owner.annotations.get(name, "") for owner in above)]  # fmt: skip


def parsed(text: str) -> int:
    """A duration in milliseconds; 0: it is none."""
    if text.isdecimal() and len(text) < 10:
        return SECOND_MS * int(text)
    try:
        return duration_ms(text) if text else 0
    except ValueError:
        return 0
