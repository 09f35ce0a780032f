"""How long a job should run, as its owner says: the estimate that backfill counts with."""

from collections.abc import Iterable

from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import SECOND_MS, duration_ms

EXPECTED = "tidemill/expected-duration"
"""An annotation of pods or of their owner: `2h30m`, `45m`, or a number of seconds."""


def of_job(pods: Iterable[KubePod], owner: OwnerObject | None) -> int:
    """Milliseconds; 0: nobody says. A deadline is an upper bound of whatever is expected."""
    some = list(pods)
    expected = [ms for text in _told(some, owner) if (ms := parsed(text))]
    ends = [pod.deadline_s for pod in some] + ([owner.deadline_s] if owner is not None else [])
    bounds = [SECOND_MS * seconds for seconds in ends if seconds]
    return min([*([max(expected)] if expected else []), *bounds], default=0)


def _told(pods: Iterable[KubePod], owner: OwnerObject | None) -> list[str]:
    told = [pod.annotations.get(EXPECTED, "") for pod in pods]
    return told + ([owner.annotations.get(EXPECTED, "")] if owner is not None else [])


def parsed(text: str) -> int:
    """A duration in milliseconds; 0: it is none."""
    if text.isdecimal() and len(text) < 10:
        return SECOND_MS * int(text)
    try:
        return duration_ms(text) if text else 0
    except ValueError:
        return 0
