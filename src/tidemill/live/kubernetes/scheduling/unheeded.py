"""Annotations by which somebody tells us what nobody can heed: it is said, and never guessed at."""

from collections.abc import Iterable, Iterator, Mapping

from tidemill.live.kubernetes import ties
from tidemill.live.kubernetes.owners import OwnerObject
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import estimates
from tidemill.live.kubernetes.scheduling.sizes import LEAST
from tidemill.live.kubernetes.scheduling.units import PREEMPTIBLE
from tidemill.model import decoding

OURS = "tidemill/"
GANG, SIZE = "tidemill/gang", "tidemill/gang-size"
READ = (
    GANG, SIZE, LEAST, PREEMPTIBLE, estimates.EXPECTED, estimates.INTERVAL,
    *(key for key in ties.ANNOTATIONS if key.startswith(OURS)),
)  # fmt: skip
"""Those of ours that are read of pods."""


def words(pods: Iterable[KubePod], owner: OwnerObject | None) -> tuple[str, ...]:
    """What is wrong with the annotations of a job's pods, and of their owner, in words."""
    told = [pod.annotations for pod in pods]
    told += [owner.annotations] if owner is not None else []
    return tuple(sorted({word for notes in told if notes for word in _flaws(notes)}))


def _flaws(notes: Mapping[str, str]) -> Iterator[str]:
    for key in notes:
        if not key.startswith(OURS):
            continue
        value = notes[key]
        if key == estimates.EXPECTED and value and not estimates.parsed(value):
            yield _found(key, value, "no duration such as 2h30m, or a number of seconds")
        elif key == estimates.INTERVAL and not estimates.is_interval(value):
            yield _found(key, value, "no duration such as 30m, no number of seconds, and not never")
        elif key == PREEMPTIBLE and value not in ("true", "false"):
            yield _found(key, value, "neither true nor false")
        elif key == SIZE and GANG not in notes:
            yield f"annotation {SIZE} without {GANG}: nobody knows of which gang"
        elif key not in READ:
            yield f"annotation {key[:100]} is not read: {decoding.nearest(key, READ)}"


def _found(key: str, value: str, what: str) -> str:
    return f"annotation {key} is `{value[:40]}`, {what}: it is not heeded"
