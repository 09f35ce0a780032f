"""What people wrote that nobody can heed, told to them and to whoever runs the scheduler.

Objects that cannot be read, jobs that are not placed for what they say, annotations that mean
nothing: each is a line of the log; what is about a pod is on the pod, too.
"""

from collections.abc import Iterable, Mapping

from tidemill.live.kubernetes import reasons
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.scheduling.answers import Log
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.saying import WaitSayer
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.watching.mirror import ClusterCopy

MOST_NAMED = 8
"""Of many of which the same is told."""
UNREAD = "UnreadAnnotation"
"""The reason of the Event of a pod."""


class Misread:
    """Tells each once; whoever is told again has changed it, or the scheduler began anew."""

    def __init__(self, differ: Differ, sayer: WaitSayer, log: Log) -> None:
        self._differ, self._sayer, self._log = differ, sayer, log
        self._objects: dict[str, str] = {}
        """By object: why it was not read, as it was told last."""

    def objects(self, copy: ClusterCopy) -> None:
        """Objects that cannot be read at all: nothing that they say counts."""
        found = {
            one.where: one.found for kind in copy.copies.values() for one in kind.refused.values()
        }
        news = [name for name, why in found.items() if self._objects.get(name) != why]
        for name in news[:MOST_NAMED]:
            self._log("object not read", object=name, said=found[name])
        if len(news) > MOST_NAMED:
            self._log("objects not read", count=len(news) - MOST_NAMED)
        self._objects = found

    def held(self, news: Mapping[UnitKey, Unplaceable]) -> None:
        """Jobs that are not placed for what they say, whatever is free; their pods say it."""
        told = dict[Unplaceable, list[str]]()
        for unit, why in news.items():
            if why.reason in reasons.REFUSALS:
                told.setdefault(why, []).append(unit.shown)
        for why, names in told.items():
            self._log(
                "jobs not placed", reason=why.reason, count=len(names), jobs=names[:MOST_NAMED],
                said=why.words,
            )  # fmt: skip

    def annotations(self, came: Iterable[UnitKey]) -> None:
        """Annotations of jobs that came to wait, and that mean nothing: placed without them."""
        differ, unread = self._differ, self._differ.unread
        for unit in came:
            words = unread.get(unit)
            if words is None:
                continue
            said = "; ".join(words)
            self._log("annotations not heeded", job=differ.lives.name(unit), said=said)
            self._sayer.warned(differ.view.unit_pods(unit)[:1], UNREAD, said)
        unread.clear()
