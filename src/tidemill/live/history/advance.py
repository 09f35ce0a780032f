"""Going on with a journal: what a source shows now, as the events since the watermark.

The cluster state that was folded from the journal is all that has to be known of what was told: an
observer that was killed reads its journal and goes on. Every event of a moment is told at once, so
the last moment of a journal is the watermark, whenever its writer stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tidemill.journal.asked_sources import AskedSource
from tidemill.journal.contradictions import Contradiction
from tidemill.live.history import clusters, events, fitting, fleet, telling
from tidemill.live.history.assuming import NOTHING, Assumptions
from tidemill.live.history.attempts import LONGEST_NAME, Sorted, go_on, kind_of, sequence
from tidemill.live.history.clusters import NODE_NAME, Labels, unlabelled
from tidemill.live.history.fitting import RoomShown
from tidemill.live.history.node_states import booting, told_state
from tidemill.live.history.rows import SeenNode
from tidemill.live.history.telling import ToldJobs
from tidemill.live.history.timeline import HistoryTimeline, ToldSpan
from tidemill.live.measured import joining
from tidemill.live.measured.pauses import PAUSES
from tidemill.live.measured.windows import Measurements
from tidemill.live.prices import commitments
from tidemill.live.prices.rules import PriceRule, commitments_of
from tidemill.model import events as ev
from tidemill.model.admission import NO_ADMISSION, Admission
from tidemill.model.batch import Batch, Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.quota_use import QuotaUse
from tidemill.model.rows import CLUSTER, UNLISTED, Queue, Shape
from tidemill.model.site_rules import SiteRules
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.reservation.types import OBSERVED


class SourceAnswer(NamedTuple):
    """What a source shows when it is asked once."""

    attempts: pl.DataFrame
    nodes: Sequence[SeenNode]
    now_ms: int
    """When it was asked, by its own clock, since 1970."""
    is_whole: bool = True
    """Whether it shows every node, and every job that is not over: what is not shown is gone."""
    notes: tuple[str, ...] = ()
    """What a person should know of it."""
    shapes: Sequence[Shape] = ()
    """What jobs request, for attempts that say it by number."""
    queues: Sequence[Queue] = ()
    """Teams with their quotas, parents first; those that only jobs name need not be here."""
    pods: Mapping[tuple[str, str], str] = {}
    """The job of each pod, by namespace and name."""
    numbers: Mapping[str, str] = {}
    """Other names of jobs, such as the number of a member of an array."""
    silent: tuple[str, ...] = ()
    """Jobs and nodes whose names begin like this belong to clusters that did not answer, or not in
    whole: those that are not shown go on as they were."""
    unwatched: tuple[str, ...] = ()
    """Nodes whose names begin like this are not watched any more."""
    watched_ms: int | None = None
    """Since when those who answer were asked without a gap, told or not; None: nobody says."""
    until_ms: int | None = None
    """Up to when it may be told; None: up to its moment less the lateness."""
    cluster: str = ""
    """What tells this cluster from every other; "": nobody says."""
    deciders: Mapping[str, str] = {}
    """By job: who decides for it, where that is not the cluster's own scheduler."""
    kinds: Mapping[str, str] = {}
    """What kind of cluster it is, by its name among several (``journal.cluster_kinds``)."""
    asked: Sequence[AskedSource] = ()
    """Of several clusters: how each of them answered, and those that did not."""
    against: Sequence[Contradiction] = ()
    """Of several clusters: in what they contradict each other."""
    site: SiteRules | None = None
    """For whom nodes are kept, and what partitions allow; its times are since 1970. None: the
    source tells nothing of that."""
    admission: Admission = NO_ADMISSION
    """By which queues another scheduler lets work in, and what of their quotas is used up."""
    quota_use: Sequence[QuotaUse] = ()
    """What is used up of the quotas of teams, as the cluster counts it now."""
    claim_sharers: Sequence[ClaimSharer] = ()
    """Pods that share the claims of jobs now."""
    pauses: pl.DataFrame = pl.DataFrame(schema=PAUSES)
    """Attempts that stood still while they held their GPUs (``measured.pauses``)."""


class WorkFigures(NamedTuple):
    """What is known of how jobs work beside what their scheduler shows."""

    measured: Measurements | None = None
    """Since the watermark at least."""
    assumed: Assumptions = NOTHING
    """What is to be taken where nothing was measured."""


NO_FIGURES = WorkFigures()


def _of_one(shown: SourceAnswer) -> SourceAnswer:
    """The same for a journal whose nodes do not say their cluster: nobody can require it."""
    shapes = [
        replace(shape, roles=tuple(replace(r, labels=unlabelled(r.labels)) for r in shape.roles))
        for shape in shown.shapes
    ]
    nodes = [replace(node, labels=unlabelled(node.labels)) for node in shown.nodes]
    attempts = shown.attempts.with_columns(cluster=pl.lit(None, pl.String))
    return shown._replace(attempts=attempts, nodes=nodes, shapes=shapes)


def _of_no_partition(shown: SourceAnswer) -> SourceAnswer:
    """The same for a journal whose nodes do not say their partitions: nobody can require them."""
    shapes = [
        replace(shape, roles=tuple(map(clusters.anywhere, shape.roles))) for shape in shown.shapes
    ]
    nodes = [
        replace(node, labels=tuple(one for one in node.labels if not clusters.is_of_slurm(one[0])))
        for node in shown.nodes
    ]
    attempts = shown.attempts.with_columns(node_rules=pl.lit(None, pl.String))
    return shown._replace(attempts=attempts, nodes=nodes, shapes=shapes)


def _of_no_name(shown: SourceAnswer) -> SourceAnswer:
    """The same for a journal whose nodes do not say their names: nobody can require them."""
    rules = {rule: clusters.of_no_name(rule)
             for rule in shown.attempts["node_rules"].drop_nulls().unique()}  # fmt: skip
    shapes = [
        replace(shape, roles=tuple(map(clusters.nameless, shape.roles))) for shape in shown.shapes
    ]
    nodes = [
        replace(node, labels=tuple(one for one in node.labels if one[0] != NODE_NAME))
        for node in shown.nodes
    ]
    attempts = shown.attempts.with_columns(pl.col("node_rules").replace(rules))
    return shown._replace(attempts=attempts, nodes=nodes, shapes=shapes)


def _slurm_labels(labels: Labels) -> Labels:
    """What nodes say of their partitions and features."""
    return tuple(sorted(one for one in labels if clusters.is_of_slurm(one[0])))


class Advance:
    """The events that bring a journal up to a moment.

    Whoever uses it folds each batch into ``world``, and keeps it, before asking for the next.
    ``is_unwatched``: nobody looked meanwhile. What jobs held is told afterwards all the same; of
    devices that stood free nobody knows whether they could have been used.
    """

    def __init__(
        self,
        world: World,
        begins_ms: int,
        shown: SourceAnswer,
        price_of: PriceRule,
        figures: WorkFigures = NO_FIGURES,
        *,
        is_unwatched: bool = False,
    ) -> None:
        self._is_unwatched, (self._figures, self._assumed) = is_unwatched, figures
        self._world, self._begins_ms = world, begins_ms
        if world.node_count and not any(CLUSTER in dict(row.labels) for row in world.node_rows):
            shown = _of_one(shown)
        if self._lacks_partitions(shown.nodes):
            shown = _of_no_partition(shown)
        if self._lacks_names(shown.nodes):
            shown = _of_no_name(shown)
        self._anew = self._made_anew(shown)
        """Nodes that are other machines than the journal has under their names, and since when."""
        larger = [self._as_large(node) for node in shown.nodes]
        shown = shown._replace(nodes=[one for one in larger if one.gpus or not one.may_lose])
        self._shown, self._price_of = shown, price_of
        self._listed = {node.name: node for node in shown.nodes}
        every = (*world.shape_rows, *shown.shapes)
        self._asked = {k for shape in every for role in shape.roles for k in role.rules.keys}
        self._asked -= {CLUSTER, UNLISTED[0]}  # no labels that a source shows
        self._unsaid = set[str]()
        """Nodes that are others than before, and nobody can say since when."""
        self._rows = sequence(shown.attempts)
        names = shown.attempts["job"].str.slice(0, LONGEST_NAME)
        self._names = frozenset(names.to_list()) if shown.is_whole else None
        self.late = telling.NOTHING_LATE
        self.over = 0
        """Attempts of which a part is not booked, for others hold the devices."""
        self.submitted_before: dict[str, int] = {}
        """By job that is there from the zero of the journal: how long before it was submitted. To
        be kept before the batch that tells of it: no event can say it."""
        self.placed_before: dict[str, int] = {}
        """By job that holds GPUs then: for how long it has held them by then; kept likewise."""
        self._unfilled, lost = commitments.unfilled(commitments_of(price_of), shown.nodes)
        """What is paid for whether nodes are there or not."""
        self.notes = (*self._rows.notes, *lost)
        self.against = list[Contradiction]()
        """What was measured and cannot be true, once all batches were made."""

    def batches(self, until_ms: int) -> Iterator[Batch]:
        """Every event after the watermark and up to a moment, in some batches."""
        ordered = self._ordered(until_ms)
        arrivals = self._arrivals(ordered, until_ms)
        yield from self._paid_beside()
        if arrivals:
            for at_ms, nodes in arrivals:
                if at_ms > self._mark_ms:
                    yield from self._told(self._ordered(at_ms), at_ms)
                yield from self._added(nodes)
            ordered = self._ordered(until_ms)
        yield from self._told(ordered, until_ms)

    def _paid_beside(self) -> Iterator[Batch]:
        """What is paid for beside the nodes, where it is new or not as the journal has it."""
        world, at = self._world, self._world.now_ms
        numbers = world.contract_number
        new = [one for one in self._unfilled if one.title not in numbers]
        told = events.paid_beside(new, self._begins_ms, world.contract_count, at)
        for one in self._unfilled:
            c, milli = numbers.get(one.title), one.milli_at(self._mark_ms)
            if c is not None and world.contracts.count_milli[c] != milli:
                told.append(ev.CommitmentSeen(at, c, milli))
        if told:
            yield of_events(told, Dictionary())

    def _paid_later(self, until_ms: int) -> I64:
        """What is paid for beside the nodes from later moments on that are told now."""
        span_ms, numbers = (self._mark_ms - 1, until_ms), self._world.contract_number
        return np.concatenate([
            events.paid_later([one], numbers[one.title], self._begins_ms, span_ms)
            for one in self._unfilled
        ])  # fmt: skip

    @property
    def _mark_ms(self) -> int:
        return self._begins_ms + self._world.now_ms

    def _ordered(self, until_ms: int) -> Sorted:
        known = self._known()
        sizes = {node.name: node.gpus for node in self._shown.nodes if node.gpus > 0}
        ahead_ms = min(fitting.BRIEF_MS, max(0, self._shown.now_ms - until_ms))
        room = RoomShown(sizes, ahead_ms)
        return go_on(self._rows, known, self._mark_ms, until_ms, self._with_ups, room)

    def _known(self) -> ToldJobs:
        return ToldJobs(
            self._world, self._begins_ms, self._names, self._shown.shapes, self._shown.silent
        )

    def _with_ups(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Attempts with when they came up, as it was measured or is assumed, if that is news."""
        measured, known = self._measured_of(rows), rows
        came_up = measured.ups["job"].to_list() if measured is not None else ()
        if measured is not None:
            known = joining.with_ups(known, measured)
        known = self._assumed.with_ups(known, came_up)
        up = pl.when("is_up_told").then("up_ms").otherwise(known["up_ms"])
        return rows.with_columns(up_ms=up)

    def _measured_of(self, rows: pl.DataFrame) -> Measurements | None:
        """What was measured, of jobs as the journal calls their present lives."""
        if self._figures is None:
            return None
        known, names = self._world.job_number, rows["job"].unique().to_list()
        lives = {telling.origin(name, known): name for name in names}
        named = {
            name: frame.with_columns(pl.col("job").replace(lives))
            for name, frame in self._figures._asdict().items() if name != "against"
        }  # fmt: skip
        return self._figures._replace(**named)

    def _told(self, ordered: Sorted, until_ms: int) -> Iterator[Batch]:
        """What happens up to a moment on the nodes that there are."""
        world, dictionary = self._world, Dictionary()
        if self._mark_ms == self._begins_ms:
            self.submitted_before = events.submitted_before(ordered.jobs, self._begins_ms)
            self.placed_before = events.placed_before(self._shown.attempts, self._begins_ms)
        if new := self._new_teams(ordered):
            yield of_events(events.opened(world.now_ms, (), new, (), world), dictionary)
        span = ToldSpan(
            self._begins_ms, self._mark_ms, until_ms, self._is_unwatched,
            frozenset(self._shown.unwatched),
        )  # fmt: skip
        told = self._measured_of(ordered.attempts)
        told = joining.idle_as_services(told, ordered.attempts, ordered.shapes)
        measured = joining.rows_of(
            ordered.attempts, self._shown.nodes, told, self._begins_ms, until_ms, world
        )
        rows = measured.rows
        if self._unfilled:
            rows = np.concatenate([rows, self._paid_later(until_ms)])
        lines = HistoryTimeline(
            ordered, self._machines(ordered, until_ms), span, rows, world, ordered.shapes
        )
        self.against += measured.against
        self.notes += tuple(measured.notes)
        came_up = told.ups["job"].to_list() if told is not None else ()
        for batch in lines.batches(dictionary, in_one=True):
            yield self._assumed.fill(batch, came_up)
        self.late = self.late.plus(ordered.late)
        self.over += lines.over
        self.notes += (*ordered.notes, *fitting.said_over(lines.over_beside, lines.over_names))

    def _new_teams(self, ordered: Sorted) -> list[Queue]:
        """Teams that the journal does not have, or not as they are shown."""
        known = self._world.queue_number
        told = events.teams([ordered.jobs], self._shown.queues)
        listed = {queue.name for queue in self._shown.queues}
        return [
            queue for queue in told
            if queue.name not in known
            or (queue.name in listed and queue != self._world.queue_rows[known[queue.name]])
        ]  # fmt: skip

    def _added(self, nodes: list[SeenNode]) -> Iterator[Batch]:
        """Nodes that are there from now on."""
        world = self._world
        window_ms = (self._begins_ms, self._begins_ms + world.now_ms)
        contracts, under = fleet.contracts_of(nodes, self._price_of, window_ms, world, OBSERVED)
        opening = events.opened(world.now_ms, contracts, (), under, world, booting(nodes))
        yield of_events(opening, Dictionary())

    def _arrivals(self, ordered: Sorted, until_ms: int) -> list[tuple[int, list[SeenNode]]]:
        """When nodes that the journal does not have came, in order.

        When they joined, where the source says so. Else at the beginning of the journal, or just
        before the end of what is told now: that is when they were first seen. Where work that is
        told now ran on them, just before it began. One that was seen to become another does so
        then.
        """
        seen = fleet.with_unlisted(self._shown.nodes, [ordered.attempts], ordered.shapes)
        new = {node.name: node for node in seen if self._number(node.name, until_ms) is None}
        new = {name: node for name, node in new.items() if name not in self._anew}
        begun = ordered.attempts.select("start_ms", "nodes").explode("nodes").drop_nulls()
        first = dict(begun.group_by("nodes").agg(pl.col("start_ms").min()).iter_rows())
        found = dict[int, list[SeenNode]]()
        for name, node in new.items():
            at_ms = min(until_ms, first.get(name, until_ms)) - 1
            machine = node.machine_name
            if (before := self._present(machine)) is not None:
                # it was there, with other devices: its parts come when those can go
                is_other = self._differs(before, self._listed.get(machine))
                if name not in first and self._world.aboard[before] and is_other:
                    continue
                turned_ms = self._other_since_ms(before, node) if name == machine else 0
                if self._mark_ms < turned_ms < first.get(name, until_ms + 1):
                    at_ms = turned_ms
                else:
                    self._unsaid.add(name)
            elif node.since_ms is not None:
                if name not in first and node.since_ms > until_ms:
                    continue
                at_ms = min(node.since_ms, first.get(name, until_ms + 1) - 1)
            elif not self._world.seq:
                at_ms = self._mark_ms
            found.setdefault(max(self._mark_ms, at_ms), []).append(node)
        for node in seen:  # its earlier machine was there until then
            if (joined_ms := self._anew.get(node.name, until_ms + 1)) <= until_ms:
                found.setdefault(joined_ms, []).append(node)
        return sorted(found.items(), key=lambda one: one[0])

    def _lacks_partitions(self, nodes: Sequence[SeenNode]) -> bool:
        """Whether the journal has nodes that say their partitions now, and told of none."""
        told = [n for node in nodes if _slurm_labels(node.labels)
                and (n := self._present(node.name)) is not None]  # fmt: skip
        return bool(told) and not any(_slurm_labels(self._world.node_rows[n].labels) for n in told)

    def _lacks_names(self, nodes: Sequence[SeenNode]) -> bool:
        """Whether the journal has nodes that say their names now, and did not."""
        told = [n for node in nodes if NODE_NAME in dict(node.labels)
                and (n := self._present(node.name)) is not None]  # fmt: skip
        rows = self._world.node_rows
        return bool(told) and not any(NODE_NAME in dict(rows[n].labels) for n in told)

    def _number(self, name: str, at_ms: int) -> int | None:
        """The number of a node that is there at a moment, as it is shown if nobody sits on it."""
        n = self._present(name)
        shown = self._listed.get(name)
        if n is None or shown is None or self._world.aboard[n] or name in self._anew:
            return n  # while somebody sits on it, it is as it was: what it held was booked so
        if not self._differs(n, shown) or self._other_since_ms(n, shown) > at_ms:
            return n
        return None

    def _present(self, name: str) -> int | None:
        """The number of a node that the journal has, and that is not gone."""
        numbers = self._world.node_number
        life = telling.present(name, numbers)
        if life is None or self._world.nodes.state[numbers[life]] == NodeState.GONE:
            return None
        return numbers[life]

    def _made_anew(self, shown: SourceAnswer) -> dict[str, int]:
        """By node whose machine joined after all that was told, when it did: another had its name.

        Where work that was there before goes on, it is one machine that registered again.
        """
        later: dict[str, int] = {
            node.name: node.made_ms for node in shown.nodes
            if node.made_ms is not None and node.made_ms > self._mark_ms
            and node.until_ms is None and self._present(node.name) is not None
        }  # fmt: skip
        if not later:
            return {}
        rows = shown.attempts.select("nodes", "start_ms", "end_ms").explode("nodes")
        work = rows.filter(pl.col("nodes").is_in([*later]) & pl.col("start_ms").is_not_null())
        for name, start_ms, end_ms in work.iter_rows():
            if start_ms < later.get(name, 0) and (end_ms is None or end_ms > later[name]):
                del later[name]
        return later

    def _as_large(self, node: SeenNode) -> SeenNode:
        """A node; one that shows fewer accelerators than the journal has, and may have lost them,
        is as large as before.
        """
        is_known = node.may_lose and node.name not in self._anew
        n = self._present(node.name) if is_known else None
        if n is None or node.gpus >= (before := self._world.nodes.devices.item(n)):
            return node
        kind = self._world.kinds[self._world.nodes.kind.item(n)]
        if not node.gpus:  # who has none says no type
            return replace(node, gpus=before, gpu_type=kind)
        return replace(node, gpus=before) if kind == kind_of(node.gpu_type) else node

    def _differs(self, n: int, now: SeenNode | None) -> bool:
        """Whether a node is not as the journal says: cut anew, all there now, labelled anew."""
        world = self._world
        size, kind = world.nodes.devices.item(n), world.kinds[world.nodes.kind.item(n)]
        return now is None or (now.gpus > 0 and (
            (size, kind) != (now.gpus, kind_of(now.gpu_type))
            or self._selectable(world.node_rows[n].labels) != self._selectable(now.labels)
        ))  # fmt: skip

    def _other_since_ms(self, n: int, now: SeenNode) -> int:
        """When a node was seen to become another than the journal says; 0: nobody saw it."""
        if now.name in self._unsaid:
            return 0
        world = self._world
        size, kind = world.nodes.devices.item(n), world.kinds[world.nodes.kind.item(n)]
        was, is_ = (dict(self._selectable(row.labels)) for row in (world.node_rows[n], now))
        changed = [key for key in {**was, **is_} if was.get(key) != is_.get(key)]
        changed += [""] if (size, kind) != (now.gpus, kind_of(now.gpu_type)) else []
        return max((now.changed_ms.get(key, 0) for key in changed), default=0)

    def _selectable(self, labels: Labels) -> Labels:
        """Of a node's labels its partitions, and those that jobs select by: no others matter."""
        return tuple(
            sorted(one for one in labels if one[0] in self._asked or clusters.is_of_slurm(one[0]))
        )

    def _machines(self, ordered: Sorted, at_ms: int) -> list[SeenNode | None]:
        """The nodes of the journal as they are shown, by number; None: not shown any more.

        One that work is shown on is there, whoever lists it.
        """
        found: list[SeenNode | None] = [None] * self._world.node_count
        shown = {node.name: node for node in self._shown.nodes}
        named = {name for some in ordered.attempts["nodes"].to_list() for name in some or ()}
        numbers = self._world.node_number
        if not self._shown.is_whole:
            named |= {telling.origin(name, numbers) for name in numbers}
        elif silent := self._shown.silent:
            known = (telling.origin(name, numbers) for name in numbers)
            named |= {name for name in known if name.startswith(silent)}
        for name in {*shown, *named}:
            if (n := self._number(name, at_ms)) is not None:
                found[n] = self._earlier(n, name, at_ms) or shown.get(name)
                found[n] = found[n] or self._as_before(n, name)
        for n in self._left_unseen():
            if (node := found[n]) is not None and not node.unseen:
                unseen = (*node.unseen, (self._mark_ms, at_ms))
                found[n] = replace(node, unseen=unseen)
        return found

    def _earlier(self, n: int, name: str, at_ms: int) -> SeenNode | None:
        """The machine that had a name before another; None: none did, or it is gone by now.

        It was there until the other joined, and nobody saw it meanwhile.
        """
        joined_ms = self._anew.get(name, 0)
        if joined_ms <= self._mark_ms:
            return None
        unseen = ((self._mark_ms, min(joined_ms, at_ms)),)
        before = self._as_before(n, name)
        return replace(before, until_ms=joined_ms, unseen=unseen, is_inferred=False)

    def _left_unseen(self) -> set[int]:
        """Nodes on which a job ended that nobody saw end: what is free there it may have held."""
        gone = self._known().missing()
        return {piece.node for j in gone for piece in self._world.placements.get(j, ())}

    def _as_before(self, n: int, name: str) -> SeenNode:
        """A node that nobody lists: it is as it was."""
        nodes = self._world.nodes
        state, since_ms = told_state(self._world, n), self._begins_ms + nodes.since_ms.item(n)
        out = () if state is NodeState.READY else ((since_ms, None, state),)
        is_missed = self._shown.is_whole and not name.startswith(self._shown.silent)
        gpus = nodes.devices.item(n)
        spare = ((0, None),) if nodes.is_spare[n] else ()
        return SeenNode(
            name=name, gpus=gpus, gpu_type="", out=out, spare=spare, is_inferred=is_missed
        )
