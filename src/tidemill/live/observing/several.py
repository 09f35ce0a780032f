"""Several clusters as one source: one answer of all of them together, names kept apart.

Each has its own clock, of which may be declared how far it is ahead, and its own lateness; the
journal is told up to where all have told. One that does not answer holds it back for as long as a
gap may be; then the others go on without it, and what it tells later comes late.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.journal.asked_sources import AskedSource, SourcePart
from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.history.clusters import Labels, label
from tidemill.live.history.rows import ATTEMPTS, NEVER_UP_MS, SeenNode
from tidemill.live.observing.asking import Asking
from tidemill.live.observing.observer import Watched
from tidemill.live.observing.reasons_seen import ReasonsSeen
from tidemill.live.prometheus.labels import host_of
from tidemill.model.errors import BackendError
from tidemill.model.measures import FOREVER_MS, count_text
from tidemill.model.rows import Queue, Shape, Share
from tidemill.model.site_rules import SiteRules

_TIMES = ("submit_ms", "start_ms", "end_ms", "reason_ms")


class WatchedCluster(NamedTuple):
    """One cluster of a fleet."""

    name: str
    source: Watched
    lateness_ms: int = 60_000
    gap_ms: int = 600_000
    ahead_ms: int = 0
    """How far its clock is ahead of the others'."""
    is_team_user: bool = False
    """Whether each user is a team."""


class SeveralClusters:
    """The clusters of a fleet; one alone keeps the names of its jobs and nodes.

    ``teams``: what the books call a team, by what clusters call it.
    """

    def __init__(
        self, clusters: Sequence[WatchedCluster], teams: Mapping[str, str] | None = None
    ) -> None:
        self._clusters, self._teams = clusters, teams or {}
        self._told_ms: dict[str, int] = {}
        self._answers_ms: dict[str, tuple[int, int]] = {}
        """Of each cluster: since when it answers without a gap, and when it last did."""
        self._reasons = {one.name: ReasonsSeen() for one in clusters}
        self._queues: dict[str, Sequence[Queue]] = {}
        """Of each cluster as it last answered: quotas do not end because a cluster is silent."""
        named = [f"{one.name} ({one.source.name})" for one in clusters]
        self.name = clusters[0].source.name if len(clusters) == 1 else ", ".join(named)

    @property
    def lateness_ms(self) -> int:
        """So far behind its clock is what all of them have told."""
        return max(one.lateness_ms for one in self._clusters)

    def prefix_of(self, cluster: str) -> str:
        """What the names of a cluster's jobs and nodes begin with."""
        return f"{cluster}/" if len(self._clusters) > 1 else ""

    def now_ms(self) -> int:
        """The clock of whoever is furthest behind; ``BackendError`` if nobody answers."""
        found, errors = list[int](), list[BackendError]()
        for one in self._clusters:
            try:
                found.append(one.source.now_ms() - one.ahead_ms)
            except BackendError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        return min(found)

    def poll(self, since_ms: int) -> SourceAnswer:
        """What all clusters show that answer; ``BackendError`` if none does."""
        answers, down = dict[str, SourceAnswer](), dict[str, BackendError]()
        asked = list[AskedSource]()
        for one in self._clusters:
            asking = Asking(f"{one.name} ({one.source.name})", SourcePart.JOBS)
            try:
                shown = one.source.poll(since_ms + one.ahead_ms)
                asked.append(asking.answered(shown.notes))
                answers[one.name] = self._moved(one, shown)
            except BackendError as error:
                asked.append(asking.failed(error))
                down[one.name] = error
        if not answers:
            raise next(iter(down.values()))
        by_name = {one.name: one for one in self._clusters}
        told = {name: answer.now_ms - by_name[name].lateness_ms for name, answer in answers.items()}
        self._told_ms |= told
        since = [self._answered(by_name[name], answer.now_ms) for name, answer in answers.items()]
        until_ms, notes, lost = min(told.values()), list[str](), list[str]()
        for name, found in down.items():
            last_ms = self._told_ms.get(name, since_ms)
            notes.append(f"{name} does not answer: {found.message}")
            if until_ms - last_ms > by_name[name].gap_ms:
                lost.append(name)
                notes.append(f"the journal goes on without {name}: what it tells later is late")
        held = [self._told_ms.get(name, since_ms) for name in down if name not in lost]
        joined = self._joined(answers)
        partial = [name for name, answer in answers.items() if not answer.is_whole]
        return joined._replace(
            until_ms=min([until_ms, *held]),
            notes=(*notes, *joined.notes),
            silent=tuple(self.prefix_of(name) for name in (*down, *partial)),
            unwatched=tuple(self.prefix_of(name) for name in lost),
            watched_ms=max(since),
            asked=asked,
            against=listed_twice(answers),
        )

    def _answered(self, one: WatchedCluster, now_ms: int) -> int:
        """A cluster answers: since when it does without a gap."""
        since_ms, last_ms = self._answers_ms.get(one.name, (now_ms, now_ms))
        if now_ms - last_ms > one.gap_ms:
            since_ms = now_ms
        self._answers_ms[one.name] = (since_ms, now_ms)
        return since_ms

    def _moved(self, one: WatchedCluster, answer: SourceAnswer) -> SourceAnswer:
        """An answer in the fleet's time, names and teams."""
        prefix, ahead_ms = self.prefix_of(one.name), one.ahead_ms
        rows = answer.attempts.select(
            (pl.col(name) if name in answer.attempts.columns else pl.lit(None)).cast(kind)
            .alias(name) for name, kind in ATTEMPTS.items()
        )  # fmt: skip
        rows = self._reasons[one.name].dated(rows, answer.now_ms)
        team = pl.coalesce("user", "team") if one.is_team_user else pl.col("team")
        named = pl.lit(prefix) + pl.element()
        up = pl.when(pl.col("up_ms") < NEVER_UP_MS).then(pl.col("up_ms") - ahead_ms)
        rows = rows.with_columns(
            *(pl.col(name) - ahead_ms for name in _TIMES),
            up_ms=up.otherwise("up_ms"), job=pl.lit(prefix) + pl.col("job"),
            nodes=pl.col("nodes").list.eval(named), team=team.replace(dict(self._teams)),
            cluster=pl.lit(one.name if prefix else None, pl.String),
        )  # fmt: skip
        queues = () if one.is_team_user else answer.queues  # accounts are no teams then
        self._queues[one.name] = [self._queue(queue) for queue in queues]
        clusters, labels = (f"{one.name}: ", label(one.name)) if prefix else ("", ())
        return answer._replace(
            attempts=rows,
            nodes=[_moved_node(node, prefix, ahead_ms, labels) for node in answer.nodes],
            now_ms=answer.now_ms - ahead_ms,
            notes=tuple(clusters + note for note in answer.notes),
            shapes=[self._shape(shape, labels) for shape in answer.shapes],
            pods={pod: prefix + job for pod, job in answer.pods.items()},
            deciders={prefix + job: who for job, who in answer.deciders.items()},
            claim_sharers=[
                it._replace(pod=prefix + it.pod, job=prefix + it.job) for it in answer.claim_sharers
            ],
            kinds={one.name if prefix else of: kind for of, kind in answer.kinds.items()},
            numbers={number: prefix + job for number, job in answer.numbers.items()},
            site=answer.site
            and answer.site.moved(-ahead_ms, prefix=prefix, cluster=one.name if prefix else ""),
            pauses=answer.pauses.with_columns(
                pl.col("start_ms", "end_ms", "changed_ms") - ahead_ms,
                job=pl.lit(prefix) + pl.col("job"),
            ),
        )

    def _shape(self, shape: Shape, labels: Labels) -> Shape:
        roles = tuple(replace(role, labels=(*role.labels, *labels)) for role in shape.roles)
        return replace(shape, team=self._teams.get(shape.team, shape.team), roles=roles)

    def _queue(self, queue: Queue) -> Queue:
        name, parent = (self._teams.get(team, team) for team in (queue.name, queue.parent))
        return replace(queue, name=name, parent=parent)

    def _joined(self, answers: Mapping[str, SourceAnswer]) -> SourceAnswer:
        """Answers of clusters as one."""
        frames, shapes = list[pl.DataFrame](), list[Shape]()
        for answer in answers.values():
            frames.append(answer.attempts.with_columns(pl.col("shape") + len(shapes)))
            shapes += answer.shapes
        every = answers.values()
        return SourceAnswer(
            pl.concat(frames), [node for one in every for node in one.nodes],
            min(one.now_ms for one in every),
            notes=tuple(note for one in every for note in one.notes),
            shapes=shapes, queues=_added_up(self._queues),
            pods=_only_once([one.pods for one in every]),
            deciders={job: who for one in every for job, who in one.deciders.items()},
            claim_sharers=[it for one in every for it in one.claim_sharers],
            kinds={of: kind for one in every for of, kind in one.kinds.items()},
            site=_rules_of_all([one.site for one in every if one.site is not None]),
            numbers=_only_once([*(one.numbers for one in every), *self._bare(answers)]),
            pauses=pl.concat([one.pauses for one in every]),
        )  # fmt: skip

    def _bare(self, answers: Mapping[str, SourceAnswer]) -> list[dict[str, str]]:
        """Jobs by the names that they have in their own cluster."""
        found = list[dict[str, str]]()
        for name, answer in answers.items():
            if prefix := self.prefix_of(name):
                jobs = answer.attempts["job"].unique().to_list()
                found.append({job.removeprefix(prefix): job for job in jobs})
        return found


def _moved_node(node: SeenNode, prefix: str, ahead_ms: int, labels: Labels) -> SeenNode:
    out = tuple(
        (start_ms - ahead_ms, None if stop_ms is None else stop_ms - ahead_ms, state)
        for start_ms, stop_ms, state in node.out
    )
    since_ms = None if node.since_ms is None else node.since_ms - ahead_ms
    labels = (*node.labels, *labels)
    return replace(
        node, name=prefix + node.name, out=out, since_ms=since_ms, labels=labels,
        made_ms=None if node.made_ms is None else node.made_ms - ahead_ms,
        advertised=tuple((at_ms - ahead_ms, count) for at_ms, count in node.advertised),
    )  # fmt: skip


def listed_twice(answers: Mapping[str, SourceAnswer]) -> list[Contradiction]:
    """Nodes with GPUs of one host name that several clusters list; names have their prefixes.

    Whether it is one machine nobody can say by its name: both are booked.
    """
    found = dict[str, list[tuple[str, SeenNode]]]()
    for cluster, answer in answers.items():
        for node in answer.nodes:
            if node.gpus:
                host = host_of(node.name.rpartition("/")[2]).lower()
                found.setdefault(host, []).append((cluster, node))
    now_ms = min(answer.now_ms for answer in answers.values())
    return [
        Contradiction(
            sort=ContradictionSort.LISTED_TWICE, name=host,
            source=", ".join(cluster for cluster, _ in several),
            says="listed " + " and ".join(f"by {cluster} with {count_text(node.gpus, 'GPU')}"
                                          for cluster, node in several) + ": both are booked",
            first_ms=now_ms, last_ms=now_ms,
        )
        for host, several in sorted(found.items()) if len({cluster for cluster, _ in several}) > 1
    ]  # fmt: skip


def _only_once(maps: Sequence[Mapping[Any, str]]) -> dict[Any, str]:
    """Names that mean one job; what means two in different clusters says nothing."""
    found, twice = dict[Any, str](), set[Any]()
    for one in maps:
        for name, job in one.items():
            if found.setdefault(name, job) != job:
                twice.add(name)
    return {name: job for name, job in found.items() if name not in twice}


def _added_up(told: Mapping[str, Sequence[Queue]]) -> list[Queue]:
    """Teams of all clusters; the quotas of one that several tell of are added."""
    found = dict[str, Queue]()
    for queue in (queue for some in told.values() for queue in some):
        other = found.get(queue.name)
        if other is None:
            found[queue.name] = queue
            continue
        kinds = {share.kind: share for share in other.shares}
        for share in queue.shares:
            kinds[share.kind] = _added(kinds.get(share.kind), share)
        found[queue.name] = replace(other, shares=tuple(kinds[kind] for kind in sorted(kinds)))
    return list(found.values())


def _added(one: Share | None, other: Share) -> Share:
    if one is None:
        return other
    names = ("floor_milli", "limit_milli", "borrow_milli", "lend_milli")
    sums = {name: min(FOREVER_MS, getattr(one, name) + getattr(other, name)) for name in names}
    return Share(one.kind, **sums)


def _rules_of_all(told: Sequence[SiteRules]) -> SiteRules | None:
    """What clusters rule, together; None: none tells."""
    if not told:
        return None
    return SiteRules(
        tuple(row for one in told for row in one.reservations),
        tuple(row for one in told for row in one.partitions),
    )
