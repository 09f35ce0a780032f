"""Admission: queues that let work in beside the teams that it is of, with quotas (Kueue's).

Whatever teams are, a job waits there until there is quota for it. No event tells it; a journal
keeps it as a fact beside them, as of the last look.
"""

from typing import NamedTuple

from tidemill.model.node_rules import Pair
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
    closed: str = ""
    """Why it lets nothing more in, in words; "": it does."""


class QueueRule(NamedTuple):
    """How a queue lets work in, where that is not by its quota alone."""

    queue: str
    """As shapes name it, or its team's name."""
    closed: str = ""
    """Why it lets nothing more in, in words; "": it does."""
    is_strict: bool = False
    """Whether nobody passes who waits in it."""
    preempts: str = ""
    """By which rules it stops others for its work, in words; "": by none."""


class QuotaFlavor(NamedTuple):
    """One of the sorts of nodes for which a queue has quota; the first that has enough is taken."""

    of: str
    """The queue, as shapes name it (``Shape.quota``), or its team's name."""
    name: str
    queue: str
    """The queue that counts what is admitted by it."""
    labels: tuple[Pair, ...] = ()
    """Those of its nodes: whoever admits adds them to what work requires."""
    tolerates: tuple[Pair, ...] = ()
    """Taints that it lets work tolerate."""
    taints: tuple[Pair, ...] = ()
    """Taints that work has to tolerate by itself."""


class Admission(NamedTuple):
    """All of them."""

    queues: tuple[Queue, ...] = ()
    """Those above come first."""
    used: tuple[UsedQuota, ...] = ()
    """Of every queue that work is charged to; none: nobody counts, and the books do."""
    entrances: tuple[Entrance, ...] = ()
    admitted: tuple[str, ...] = ()
    """Jobs that hold quota, and wait."""
    flavors: tuple[QuotaFlavor, ...] = ()
    """Of each queue in the order in which it tries them."""
    rules: tuple[QueueRule, ...] = ()
    """Of those queues that have some."""
    together: tuple[str, ...] = ()
    """Queues of which one quota is for GPUs of several types together: what all of them use counts
    for each."""

    def rule_of(self, queue: str) -> QueueRule:
        """That of one queue."""
        return next((one for one in self.rules if one.queue == queue), QueueRule(queue))

    def flavors_of(self, queue: str) -> list[QuotaFlavor]:
        """Those of one queue."""
        return [one for one in self.flavors if one.of == queue]


NO_ADMISSION = Admission()
