"""A history as events: contracts, teams, machines, then the life of jobs (``timeline``)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tidemill.engine.fold.earlier import NodeLimit
from tidemill.journal import (
    admission,
    claim_sharers,
    cluster_kinds,
    contradictions,
    deciders,
    device_ids,
    mfu_sources,
    node_reasons,
    quota_use,
    site_rules,
    submissions,
)
from tidemill.journal.contradictions import Contradiction
from tidemill.journal.device_ids import DeviceNamed
from tidemill.journal.node_reasons import NodeReason
from tidemill.journal.source import untold_facts
from tidemill.live.history import clusters, earlier, fitting, fleet
from tidemill.live.history.assuming import NOTHING, Assumptions
from tidemill.live.history.attempts import (
    LONGEST_NAME,
    SortedParts,
    by_submission,
    put_in_order,
    tells_submissions,
)
from tidemill.live.history.gathered import GatheredRows, Tables, columns_of
from tidemill.live.history.node_states import booting, joins_later
from tidemill.live.history.rows import SeenNode
from tidemill.live.history.timeline import HistoryTimeline, ToldSpan
from tidemill.live.measured import against, joining, parts
from tidemill.live.measured.windows import Measurements
from tidemill.live.prices import commitments
from tidemill.live.prices.commitments import Unfilled
from tidemill.live.prices.rules import PriceRule, commitments_of, unpriced
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.admission import NO_ADMISSION, Admission
from tidemill.model.batch import Batch, Dictionary, EventColumn
from tidemill.model.batch.convert import of_events
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.errors import SpecError
from tidemill.model.events import Event
from tidemill.model.lives import present
from tidemill.model.measures import count_text
from tidemill.model.quota_use import QuotaUse
from tidemill.model.rows import Contract, Node, Queue, Shape
from tidemill.model.site_rules import NO_RULES, SiteRules
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World


class History(NamedTuple):
    """A cluster's past, ready to be written into a journal."""

    begins_ms: int
    """Milliseconds since 1970: the zero of the journal."""
    length_ms: int
    jobs: int
    attempts: int
    nodes: int
    gpus: int
    notes: tuple[str, ...]
    opening: list[Event]
    """Contracts, teams and machines."""
    timeline: HistoryTimeline
    assumed: Assumptions = NOTHING
    came_up: frozenset[str] = frozenset()
    """Jobs of which it was measured when they came up."""
    tells_submissions: bool = True
    """Whether it is known when jobs were submitted, and so how long they waited."""
    untold_states: frozenset[str] = frozenset()
    """In which ways (``journal.source.OUT``) nodes may have been out without anybody saying so."""
    submitted_before: Mapping[str, int] = {}
    """By job, how long before the beginning it was submitted."""
    node_reasons: tuple[NodeReason, ...] = ()
    node_limits: tuple[tuple[str, NodeLimit], ...] = ()
    """What nodes do not give at the end, though events say so."""
    """Why nodes are out at the end."""
    deciders: Mapping[str, str] = {}
    """By job: who decides for it, where that is not the cluster's own scheduler."""
    kinds: Mapping[str, str] = {}
    """What kind of cluster it is, by its name among several (``journal.cluster_kinds``)."""
    site: SiteRules = NO_RULES
    """For whom nodes are kept, and what partitions allow; its times are since 1970."""
    devices: Sequence[DeviceNamed] = ()
    """Which cards drivers reported errors of."""
    contradictions: Sequence[Contradiction] = ()
    """Where those who measured contradict the scheduler."""
    mfu_sources: Sequence[tuple[str, str]] = ()
    """Jobs, and who says how efficient they were."""

    admission: Admission = NO_ADMISSION
    """By which queues another scheduler lets work in, and what of their quotas is used up."""
    quota_use: Sequence[QuotaUse] = ()
    """What is used up of the quotas of teams at the end."""
    claim_sharers: Sequence[ClaimSharer] = ()
    """Pods that share the claims of jobs then."""

    def facts(self) -> dict[str, str]:
        """What a journal keeps of it beside the events."""
        tells, out = self.tells_submissions, self.untold_states
        return (
            submissions.facts(self.submitted_before) | node_reasons.facts(self.node_reasons)
            | deciders.facts({}, self.deciders.items()) | device_ids.facts((), self.devices)
            | contradictions.facts(contradictions.gone_on((), self.contradictions))
            | mfu_sources.facts({}, self.mfu_sources)
            | site_rules.facts(NO_RULES, self.site.moved(-self.begins_ms), self.length_ms)
            | admission.facts({}, self.admission, self.length_ms, "")
            | quota_use.facts({}, self.quota_use, self.length_ms, "")
            | claim_sharers.facts({}, self.claim_sharers, self.length_ms, "")
            | untold_facts(tells_submissions=tells, states=out) | cluster_kinds.facts(self.kinds)
        )  # fmt: skip

    def batches(self) -> Iterator[Batch]:
        """All of its events, in order, some at a time; once."""
        dictionary = Dictionary()
        yield of_events(self.opening, dictionary)
        for batch in self.timeline.batches(dictionary):
            yield self.assumed.fill(batch, self.came_up)

    @property
    def foreseen(self) -> int:
        """About how many events there are: a submission, and of an attempt three."""
        return len(self.opening) + self.jobs + 3 * self.attempts

    @property
    def contracts(self) -> list[Contract]:
        """What pays for its machines."""
        return [event.contract for event in self.opening if isinstance(event, ev.ContractSigned)]

    @property
    def over(self) -> int:
        """Attempts of which a part was not booked, once all batches were made."""
        return self.timeline.over

    @property
    def said_over(self) -> list[str]:
        """The same in words."""
        return fitting.said_over(self.timeline.over_beside, self.timeline.over_names)


def build(  # noqa: PLR0913 - named, and most of them may be left out
    told: pl.DataFrame | GatheredRows,
    nodes: Iterable[SeenNode],
    price_of: PriceRule = unpriced,
    from_ms: int | None = None,
    until_ms: int | None = None,
    queues: Sequence[Queue] = (),
    *,
    shapes: Sequence[Shape] = (),
    measured: Measurements | None = None,
    assumed: Assumptions = NOTHING,
    is_used_up: bool = False,
    is_idle: bool = False,
) -> History:
    """The history that these attempts and nodes make.

    ``price_of``: what one GPU of a node costs per hour (default: nobody said).
    ``from_ms``: since when the machines are paid for (default: the first submission).
    ``until_ms``: when the source was asked (default: the last thing that happened).
    ``shapes``: what jobs request, where a source says it at more length than by columns.
    ``measured``: what was measured of the jobs while they ran; ``assumed``: what is to be taken
    for the rest. ``is_used_up``: nobody needs ``told`` after this. ``is_idle``: that there was no
    job is known, and books of nodes alone are meant.
    """
    if from_ms is not None and until_ms is not None and from_ms >= until_ms:
        raise SpecError("the window ends before it begins", hint="give --from a date before --to")
    tells = is_idle or tells_submissions([told] if isinstance(told, pl.DataFrame) else told)
    came_up = set[str]()

    def with_ups(rows: pl.DataFrame) -> pl.DataFrame:
        if measured is not None:
            mine = measured.for_lives(rows["job"])
            came_up.update(mine.ups["job"].to_list())
            rows = joining.with_ups(rows, mine)
        return assumed.with_ups(rows, came_up)

    ordered = put_in_order(told, from_ms, until_ms, with_ups, is_used_up=is_used_up)
    listed = list(nodes)
    attempts, until = earlier.separate(ordered.attempts, listed)
    known = fleet.typed(listed, attempts)
    seen = earlier.in_their_time(fleet.with_unlisted(known, attempts, shapes), until)
    ordered = _fitted(ordered._replace(attempts=attempts), seen, shapes)
    attempts, jobs, shapes = ordered.attempts, ordered.jobs, ordered.shapes
    if not jobs.rows and not is_idle:
        left = f" ({'; '.join(ordered.notes)})" if ordered.notes else ""
        is_without = not ordered.notes or "requested no GPU" in left
        raise SpecError(
            f"there is no job to account{left}",
            hint="give a longer history, or one that says how many GPUs jobs had (Slurm counts them"
            " with AccountingStorageTRES=gres/gpu; pods request nvidia.com/gpu or the like)"
            if is_without
            else "mend what is said of those that were left out, or give a longer history",
        )
    if not seen:
        raise SpecError(
            "no job ran on a GPU and no node with GPUs is listed: there is nothing to account",
            hint="give a longer history, or the nodes as well",
        )
    notes = [*ordered.notes, *earlier.said(until), *fleet.said_inferred(seen, attempts)]
    notes += [*fleet.said_types(listed, seen), *earlier.said_otherwise(attempts, seen)]
    notes += clusters.said_of_nobody(seen, attempts)
    begins_ms, end_ms = _window(attempts, jobs, seen, from_ms, until_ms)
    if from_ms is not None and end_ms <= from_ms:
        raise SpecError(
            "the books begin (--from) when all that is known is over: there is no time in them",
            hint="give --from an earlier date, or say with --to when the export was made",
        )
    seen = [node for node in _since(seen, attempts) if (node.since_ms or begins_ms) <= end_ms]
    seen, more = fleet.as_of(end_ms, seen, attempts)
    notes += [*more, *fleet.said_instances(seen)]
    later = {node.name for node in seen if joins_later(node, begins_ms)}
    if later:
        joined = count_text(len(later), "node")
        notes.append(f"{joined} joined after the beginning: paid for from then on")
    brief = later | {node.name for node in seen if node.until_ms is not None}
    contracts, under = fleet.contracts_of(seen, price_of, (begins_ms, end_ms), later=brief)
    opening = opened(0, contracts, teams(jobs, queues), under, later=later | booting(seen))
    unfilled, lost = commitments.unfilled(commitments_of(price_of), seen)
    notes += lost
    opening += paid_beside(unfilled, begins_ms, len(contracts))
    by_name = {node.name: node for node in seen}
    machines = [by_name[node.name] for node in under]
    work = _measured_rows(ordered, machines, measured, begins_ms, end_ms)
    notes += [*against.said(work.against), *work.notes]
    span = ToldSpan(begins_ms, begins_ms, end_ms)
    told_later = paid_later(unfilled, len(contracts), begins_ms, (begins_ms, end_ms))
    rows = np.concatenate([work.rows, told_later])
    lines = HistoryTimeline(ordered, machines, span, rows, shapes=shapes)
    return History(
        begins_ms, end_ms - begins_ms, jobs.rows, attempts.rows, len(under),
        round(sum(node.whole_gpus for node in seen)), tuple(notes), opening, lines,
        assumed, frozenset(came_up), tells,
        submitted_before=_all_submitted_before(jobs, begins_ms),
        node_reasons=said_of_nodes(seen, begins_ms, end_ms),
        node_limits=tuple(
            (node.name, limit) for node in seen
            if (limit := _limit(node)) != NodeLimit(0, node.taints)
        ),
        devices=joining.devices_of(measured, begins_ms),
        contradictions=(
            () if measured is None else (*measured.contradictions(), *work.against)
        ),
        mfu_sources=() if measured is None else measured.mfu_sources(),
    )  # fmt: skip


def _measured_rows(
    ordered: SortedParts,
    nodes: Sequence[SeenNode],
    measured: Measurements | None,
    begins_ms: int,
    end_ms: int,
) -> joining.JoinedRows:
    """Events of what was measured: it is asked of all attempts together, if there is any."""
    attempts = pl.DataFrame()
    if measured is not None:
        names = [name for name in next(iter(ordered.attempts)).columns if name != "nth"]
        attempts = pl.concat(ordered.parts(*names))
        measured = measured.for_lives(attempts["job"])
        measured = joining.idle_as_services(measured, attempts, ordered.shapes)
        measured = parts.of_parts(measured, attempts, ordered.shapes)
    return joining.rows_of(attempts, nodes, measured, begins_ms, end_ms)


def _fitted(
    ordered: SortedParts, nodes: Sequence[SeenNode], shapes: Sequence[Shape]
) -> SortedParts:
    """What was put in order, with the jobs divided by GPU that do not fit on their nodes whole."""
    sizes = {node.name: node.gpus for node in nodes}
    crowd = fitting.crowd(ordered.attempts, sizes, shapes, fitting.BRIEF_MS)
    if not any(crowd) and not fitting.are_large(ordered.attempts, sizes, shapes):
        return ordered._replace(shapes=shapes)
    divided, every, first = dict[str, frozenset[int]](), shapes, 0

    def fit(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal every, first
        end = first + len(rows)
        later = {row - first: ms for row, ms in crowd.later.items() if first <= row < end}
        first = end
        found = fitting.fit(fitting.begin_later(rows, later), sizes, every, crowd.jobs)
        divided.update(found.divided)
        every = found.shapes
        return found.rows

    def fit_jobs(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal every
        found = fitting.by_gpu(rows, every, divided)
        every = found.shapes
        return found.rows

    attempts = ordered.attempts.changed(fit)
    jobs = ordered.jobs.changed(fit_jobs)
    notes = (*ordered.notes, *fitting.said(attempts.each("job", fitting.UNFIT)))
    numbers, is_large = ordered.numbers(), pl.col(fitting.UNFIT).is_not_null()
    large = (part.filter(is_large)["nth"] for part in attempts.each("nth", fitting.UNFIT))
    unfit = frozenset(number for nth in large for number in numbers[nth.to_numpy()].tolist())
    return ordered._replace(attempts=attempts, jobs=jobs, shapes=every, notes=notes, unfit=unfit)


def _window(
    attempts: GatheredRows,
    jobs: GatheredRows,
    nodes: Sequence[SeenNode],
    from_ms: int | None,
    until_ms: int | None,
) -> tuple[int, int]:
    """From the first submission, or the beginning of the window, to the last thing known."""
    begins = from_ms
    if begins is None:
        each = jobs.each("first_submit_ms")
        begins = int(min(part["first_submit_ms"].to_numpy().min() for part in each))
    times = ("submit_ms", "start_ms", "end_ms")
    lasts = [part[name].max() for part in attempts.each(*times) for name in times]
    lasts += [since for node in nodes for since, to, _ in node.out if to is None]
    last = max((ms for ms in (*lasts, begins) if isinstance(ms, int)), default=0)
    return begins, last if until_ms is None else until_ms


def _all_submitted_before(jobs: GatheredRows, begins_ms: int) -> dict[str, int]:
    """The same of all jobs, in the order of submission."""
    early = [
        part.filter(pl.col("told_submit_ms") < begins_ms)
        for part in jobs.each("job", "told_submit_ms", "first_submit_ms")
    ]
    return submitted_before(by_submission(pl.concat(early)), begins_ms) if early else {}


def submitted_before(jobs: pl.DataFrame, begins_ms: int) -> dict[str, int]:
    """By job, how long before the beginning it was submitted, if it was."""
    early = jobs.filter(pl.col("told_submit_ms") < begins_ms)
    return dict(early.select("job", begins_ms - pl.col("told_submit_ms")).iter_rows())


def placed_before(attempts: pl.DataFrame, begins_ms: int) -> dict[str, int]:
    """By job that holds GPUs at the beginning: for how long it has held them by then."""
    is_open = pl.col("end_ms").is_null() | (pl.col("end_ms") > begins_ms)
    held = attempts.filter((pl.col("start_ms") < begins_ms) & is_open)
    named = held.with_columns(pl.col("job").str.slice(0, LONGEST_NAME))
    return dict(named.group_by("job").agg(begins_ms - pl.col("start_ms").min()).iter_rows())


def said_of_nodes(nodes: Iterable[SeenNode], begins_ms: int, end_ms: int) -> tuple[NodeReason, ...]:
    """Why the nodes are out that are so at a moment, as far as their cluster says."""
    found = list[NodeReason]()
    for node in nodes:
        since = [
            start for start, stop, _ in node.out
            if start <= end_ms and (stop is None or stop > end_ms)
        ]  # fmt: skip
        if node.reason and (since or node.now is not None):
            since_ms = max(begins_ms, max(since, default=end_ms)) - begins_ms
            found.append(NodeReason(node.name, since_ms, node.reason))
    return tuple(found)


def limits_of(nodes: Iterable[SeenNode], world: World) -> Iterator[tuple[str, NodeLimit]]:
    """What nodes do not give now, by the name that the journal has for each."""
    for node in nodes:
        life = present(node.name, world.node_number)
        if life is None or node.gpus <= 0 or node.until_ms is not None:
            continue
        n = world.node_number[life]
        taints, failed = world.node_rows[n].taints, node.failed
        if node.advertised:  # events tell it, as soon as they are told up to here
            failed = max(0, world.nodes.devices.item(n) - node.advertised[-1][1])
        limit = _limit(node, failed, is_told=bool(node.advertised))
        if taints != node.taints or limit._replace(is_told=False) != NodeLimit(0, taints):
            yield life, limit


def _limit(node: SeenNode, failed: int = 0, *, is_told: bool = False) -> NodeLimit:
    return NodeLimit(failed, node.taints, node.host_free, is_told, node.host_taken, node.full)


def _since(nodes: Sequence[SeenNode], attempts: GatheredRows) -> Iterator[SeenNode]:
    """Nodes; where work is shown on one before it joined, it was there by then."""
    if all(node.since_ms is None for node in nodes):
        yield from nodes
        return
    seen = {name: first for name, (first, _) in fleet.spans(attempts, 0).items()}
    for node in nodes:
        if node.since_ms is None:
            yield node
        else:
            yield replace(node, since_ms=min(node.since_ms, seen.get(node.name, node.since_ms)))


def paid_beside(some: Sequence[Unfilled], begins_ms: int, first: int, at: int = 0) -> list[Event]:
    """New contracts for what no machine is there for, with numbers from the first on."""
    at_ms = begins_ms + at
    found: list[Event] = [ev.ContractSigned(at, one.contract(begins_ms, at_ms)) for one in some]
    found += [ev.ContractStarted(at, c) for c in range(first, first + len(some))]
    return found + [
        ev.CommitmentSeen(at, c, one.milli_at(at_ms)) for c, one in enumerate(some, start=first)
    ]


def paid_later(
    some: Sequence[Unfilled], first: int, begins_ms: int, span_ms: tuple[int, int]
) -> I64:
    """Events of what these pay for after one moment and before another, as rows of a batch."""
    told = [
        (at_ms - begins_ms, c, milli)
        for c, one in enumerate(some, start=first)
        for at_ms, milli in one.told(span_ms[0], span_ms[1] - 1)
    ]
    rows = np.zeros((len(told), len(EventColumn)), np.int64)
    rows[:, EventColumn.KIND] = codes.KIND_CODE[ev.CommitmentSeen]
    if told:
        rows[:, [EventColumn.AT, EventColumn.WHO, EventColumn.VALUE]] = told
    return rows


def opened(
    at: int,
    contracts: Sequence[Contract],
    queues: Sequence[Queue],
    nodes: Sequence[Node],
    world: World | None = None,
    later: Collection[str] = (),
) -> list[Event]:
    """Contracts, teams and nodes that are new; ``world``: what there is already.

    Nodes that join ``later``, or boot, are known by name, and not Ready yet.
    """
    world = world if world is not None else World()
    c, n = world.contract_count, world.node_count
    found: list[Event] = [ev.ContractSigned(at, contract) for contract in contracts]
    found += [ev.QueueSet(at, queue) for queue in queues]
    found += [ev.ContractStarted(at, c + i) for i in range(len(contracts))]
    found += [ev.NodeAdded(at, node) for node in nodes]
    for state in (NodeState.BOOTING, NodeState.READY):
        found += [
            ev.NodeMoved(at, n + i, state) for i, node in enumerate(nodes) if node.name not in later
        ]
    return found


def teams(jobs: Tables, told: Sequence[Queue] = ()) -> list[Queue]:
    """The queues that a source told, and those that only jobs name."""
    known = {queue.name for queue in told}
    named = (part["team"].unique().to_list() for part in columns_of(jobs, "team"))
    names = sorted({name for some in named for name in some} - known)
    return [*told, *(Queue(name) for name in names)]
