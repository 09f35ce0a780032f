"""Admission: queues that let work in beside the teams that it is of, with quotas (Kueue's).

Whatever teams are, a job waits there until there is quota for it. No event tells it; a journal
keeps it as a fact beside them, as of the last look.
"""

from typing import NamedTuple

from tidemill.model.rows import Queue

ADMITTED = "admitted"
"""The queue without limits of jobs that hold quota, and wait for nodes."""


class UsedQuota(NamedTuple):
    """What of a GPU type is charged to a queue, as whoever keeps it counts."""

    queue: str
    kind: str
    milli: int


class Entrance(NamedTuple):
    """By which queue a team's work comes to one with quotas."""

    team: str
    name: str
    queue: str


class Admission(NamedTuple):
    """All of them."""

    queues: tuple[Queue, ...] = ()
    """Those above come first."""
    used: tuple[UsedQuota, ...] = ()
    """Of every queue that work is charged to; none: nobody counts, and the books do."""
    entrances: tuple[Entrance, ...] = ()
    admitted: tuple[str, ...] = ()
    """Jobs that hold quota, and wait."""


NO_ADMISSION = Admission()
