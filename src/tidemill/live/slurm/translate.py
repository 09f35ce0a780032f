"""What Slurm's commands printed, as the attempts and nodes of a history (``live.history``).

A job waits from the moment it was eligible, as Slurm itself counts (`Planned`): one that is held,
or waits for another to end, is no demand. A requeued job is one job with several attempts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from tidemill.journal import deciders
from tidemill.journal.cluster_kinds import SLURM
from tidemill.journal.source import OUT
from tidemill.live import foreign
from tidemill.live.history import by_job, clusters, gathered
from tidemill.live.history.attempts import kind_of
from tidemill.live.history.gathered import GatheredRows
from tidemill.live.history.rows import SeenNode
from tidemill.live.measured.pauses import PAUSES
from tidemill.live.measured.windows import Measurements
from tidemill.live.slurm import (
    accounts,
    allowed_nodes,
    eligibility,
    evidence,
    frames,
    gpu_parts,
    het,
    host_used,
    job_gpus,
    job_names,
    joined,
    nodes,
    outcomes,
    places,
    reading,
    reasons,
    reservations,
    spread,
    suspended,
    whole_nodes,
)
from tidemill.live.slurm.allowed_nodes import NodeRequest, ReservedNodes
from tidemill.live.slurm.columns import Output
from tidemill.live.slurm.evidence import LimitRules, WaitingJob
from tidemill.live.slurm.reading import SlurmReading
from tidemill.live.slurm.refusals import Refusals
from tidemill.live.slurm.rows import (
    SlurmAssociation,
    SlurmJob,
    SlurmNode,
    SlurmNodeEvent,
    SlurmPartition,
    SlurmQos,
    SlurmReservation,
)
from tidemill.live.slurm.seen_outages import SeenOutages
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text
from tidemill.model.reasons import Cause
from tidemill.model.rows import Queue, Shape
from tidemill.model.site_rules import NO_RULES, SiteRules

_LIVE = {Output.SQUEUE_TEXT, Output.QUEUE_JSON, Output.JOBS_BLOCKS}
_ROW = {
    "job_id": pl.Int64, "array_job_id": pl.Int64, "array_task_id": pl.Int64,
    "array_tasks": pl.String, "het_job_id": pl.Int64, "het_offset": pl.Int64, "user": pl.String,
    "uid": pl.Int64, "account": pl.String, "state": pl.String, "state_flags": pl.String,
    "reason": pl.String, "reason_text": pl.String, "submit_ms": pl.Int64,
    "eligible_ms": pl.Int64, "start_ms": pl.Int64, "end_ms": pl.Int64, "time_limit_ms": pl.Int64,
    "suspended_ms": pl.Int64, "changed_ms": pl.Int64, "ran_ms": pl.Int64,
    "node_list": pl.String, "node_count": pl.Int64, "nodes_requested": pl.Int64,
    "required_nodes": pl.String, "cpus": pl.Int64, "cluster": pl.String, "gres_detail": pl.String,
    "tres_per_node": pl.String, "tasks": pl.Int64, "is_exclusive": pl.Boolean,
    "gpus_requested": pl.Int64, "gpus_allocated": pl.Int64,
    "gpu_type": pl.String, "cpu_used_ms": pl.Int64, "peak_bytes": pl.Int64,
    "reservation": pl.String,
}  # fmt: skip
_KEPT = (*het.PART, "cluster")
_SAME = (
    "job", "outcome", "start_ms", "end_ms", "gpus", "devices", "is_eligible", "reason",
    "reason_cause", "reason_layer", "memory_mib", "shards", "asked_nodes", *suspended.COLUMNS,
    *spread.TOLD,
)  # fmt: skip
"""What attempts have as rows of jobs say it."""
_READ = (
    "word", "state_flags", "gpus_allocated", "gpus_requested", "has_tres", "names_gpus",
    "tracks_gpus",
)  # fmt: skip
"""What nobody asks for once it is known which GPUs a job had."""
_WANTED = frozenset({*_ROW, "alloc_tres", "req_tres", *NodeRequest._fields})
_WANTED_LIVE = _WANTED.union(WaitingJob._fields)
"""Of what waits now also by which rules it waits."""


class SlurmPast(NamedTuple):
    """What the files of a Slurm cluster tell together."""

    parts: GatheredRows
    """Attempts by ranges of the names of their jobs."""
    nodes: list[SeenNode]
    notes: tuple[str, ...]
    refused: dict[str, Refusals]
    """What could not be read, by file."""
    named: GatheredRows
    """Jobs whose own ``number`` is not their ``name``: members of arrays, parts of heterogeneous
    jobs."""
    queues: Sequence[Queue] = ()
    """Accounts with their limits, where they were told."""
    unread: tuple[str, ...] = ()
    """Limits that are no quota here, in words; also among the notes."""
    shapes: Sequence[Shape] = ()
    """What heterogeneous jobs request, by number."""
    paused: Measurements | None = None
    """What the accounting says of jobs that were suspended."""
    pauses: pl.DataFrame = pl.DataFrame(schema=PAUSES)
    """The same, of each attempt (``measured.pauses.PAUSES``)."""
    untold_states: frozenset[str] = frozenset()
    """In which ways nodes may have been out of service, and no file says so."""
    deciders: Mapping[str, str] = {}
    """By job: what it asks of its nodes that the books cannot keep (``journal.deciders``)."""
    kinds: Mapping[str, str] = {}
    site: SiteRules = NO_RULES
    """For whom nodes are kept, and what partitions allow; its times are since 1970."""

    @property
    def attempts(self) -> pl.DataFrame:
        """All of them together; made when somebody asks."""
        return self.parts.whole()

    @property
    def numbers(self) -> dict[str, str]:
        """The names of such jobs by their own numbers; made when somebody asks."""
        return dict(row for part in self.named for row in part.iter_rows())


def read(paths: Sequence[Path], zone: str | None) -> SlurmPast:
    """All of these files, and those in these folders; each is told by what it holds."""
    gathering = Gathering()
    for path in paths:
        for one in _files(path):
            gathering.add_file(one, zone, is_chosen=one == path)
    return gathering.past()


def _files(path: Path) -> list[Path]:
    """A file by itself, or the files of a folder."""
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.is_file() and one.name[0] != ".")
    if not found:
        raise SpecError(
            f"the folder `{path}` has no files in it",
            hint="let Slurm's commands write there: sacct -aPD -o ALL > FOLDER/sacct.txt",
        )
    return found


class Gathering:
    """Outputs of Slurm, one after the other, on their way to one past.

    ``goes_on``: nodes are told once, and what jobs will ask of them later is not known yet.
    """

    def __init__(self, *, goes_on: bool = False) -> None:
        self._goes_on = goes_on
        self._jobs = GatheredRows()
        self._nodes = list[SlurmNode]()
        self._kept: dict[type[Any], list[Any]] = {SlurmNodeEvent: [], SlurmReservation: []}
        """Rows that are read one by one, by what they are of."""
        self.take_limits(LimitRules())
        self._waiting: dict[WaitingJob, int] = {}
        """By which rules jobs wait, by number."""
        self._asked: dict[NodeRequest, int] = {}
        """What jobs say of the nodes that they may use, by number."""
        self._notes = list[str]()
        self._refused = dict[str, Refusals]()
        self._now_ms: int | None = None
        """When the cluster was asked; None: nobody says."""
        self._outputs = set[Output]()
        """What was read."""

    @property
    def rules(self) -> LimitRules:
        """What is told of limits so far."""
        kinds = (SlurmAssociation, SlurmQos, SlurmPartition, SlurmReservation)
        return LimitRules(*(self._kept[kind] for kind in kinds))

    def take_limits(self, rules: LimitRules) -> None:
        """Have these limits, and none that were told before."""
        self._kept |= {
            SlurmAssociation: [*rules.associations],
            SlurmQos: [*rules.qos],
            SlurmPartition: [*rules.partitions],
        }

    def add_reservations(self, rows: Iterable[SlurmReservation]) -> None:
        """Have these too, which no command shows any more."""
        self._kept[SlurmReservation] += rows

    def look(self, seen: SeenOutages, now_ms: int, since_ms: int) -> None:
        """Have nodes with what was seen of them before, which no command shows any more."""
        self._now_ms = now_ms
        self._nodes = seen.look(self._nodes, now_ms, since_ms)
        events = self._kept[SlurmNodeEvent]
        events += seen.over(nodes.recorded(events, self._kept[SlurmReservation]))

    def add_file(self, path: Path, zone: str | None, *, is_chosen: bool) -> None:
        """Read a file; one that nobody chose by its name, and which is not Slurm's, is noted."""
        try:
            try:
                opened = reading.open_output(path, zone=zone)
            except SpecError as error:
                if not is_chosen:
                    self._notes.append(f"`{path}` left out: {error.message}")
                    return
                hint = foreign.hint(path, "slurm") or error.hint
                raise SpecError(error.message, hint=hint) from error
            with opened:
                self.add(path.name, opened)
        except SpecError as error:
            raise _of(path, error) from error
        except foreign.CUT_OFF as error:
            raise foreign.cut_off(path) from error

    def add(self, name: str, opened: SlurmReading) -> None:
        """Read all of one output; ``name``: where it is from, for messages."""
        first, tracks, lacks_held = len(self._jobs), False, _lacks_held(opened)
        opened.wanted = _WANTED_LIVE if opened.output in _LIVE else _WANTED
        for makes, frame in opened.frames():
            if makes is SlurmJob and len(frame):
                is_live = opened.output in _LIVE  # of JSON that is known only now
                tells = frame["eligible_ms"].null_count() < len(frame)
                tells |= eligibility.is_told(opened.columns)
                rules = self._rules_of(frame) if is_live else pl.lit(None, pl.Int32)
                flags = {
                    "is_live": pl.lit(is_live),
                    "tells_eligible": pl.lit(tells),
                    "lacks_held": pl.lit(lacks_held),
                }
                held = job_gpus.as_asked() if lacks_held else pl.col("gpus_allocated")
                told = job_gpus.with_tres(frame, _ROW).with_columns(
                    held, **flags, rules=rules, asked_nodes=self._nodes_of(frame)
                )
                tracks |= bool(told["names_gpus"].any())
                self._jobs.add(told)
            elif makes is SlurmNode:
                listed = cast("Iterator[SlurmNode]", frames.rows_of(makes, frame))
                self._nodes += nodes.one_by_one(listed)
            elif makes in self._kept:
                self._kept[makes] += frames.rows_of(makes, frame)
        self._jobs.say(first, "tracks_gpus", tracks)
        if opened.output is not None:
            self._outputs.add(opened.output)
        self._notes += [f"{name}: {text}" for text in _without_columns(opened)]
        if opened.refusals.total:
            self._refused[name] = opened.refusals
        if opened.is_json and opened.output is None and not opened.refusals.total:
            self._notes.append(f"{name}: JSON, and no job, node or reservation of Slurm in it")
        self._notes += [f"{name}: {text}" for text in opened.errors]

    def _rules_of(self, jobs: pl.DataFrame) -> pl.Series:
        """By which rules each of these jobs waits, by number; null for those that do not wait."""
        waits = (jobs["state"] == "PENDING").to_list()
        rules = (WaitingJob(*row) for row in jobs.select(WaitingJob._fields).iter_rows())
        return pl.Series(
            [
                self._waiting.setdefault(one, len(self._waiting)) if is_waiting else None
                for one, is_waiting in zip(rules, waits, strict=True)
            ],
            dtype=pl.Int32,
        )

    def _nodes_of(self, jobs: pl.DataFrame) -> pl.Series:
        """What each of these jobs says of the nodes that it may use, by number; null: nothing."""
        asked = jobs.select(NodeRequest._fields)
        is_counted = pl.coalesce("features", "required_nodes").is_not_null()
        count = pl.when(is_counted).then("node_count")
        asked = asked.with_columns(node_count=count)
        known = asked.unique(maintain_order=True)
        nothing = NodeRequest()
        numbers = [None if row == nothing else
                   self._asked.setdefault(NodeRequest(*row), len(self._asked))
                   for row in known.iter_rows()]  # fmt: skip
        known = known.with_columns(number=pl.Series(numbers, dtype=pl.Int32))
        found = asked.join(
            known, on=asked.columns, how="left", nulls_equal=True, maintain_order="left"
        )
        return found["number"]

    def _untold_states(self) -> frozenset[str]:
        """States that nodes may have been in, and no output says so.

        What shows nodes as they are now says nothing of the time before. A drain is in Slurm's
        record only from when no job is on its node, a reservation that is over only there.
        """
        if not self._nodes or Output.EVENTS_TEXT not in self._outputs:
            return OUT
        is_reserved = Output.RESERVATIONS_TEXT in self._outputs
        return frozenset({"draining"} if is_reserved else {"draining", "cordoned"})

    def past(self, unknown_ms: int | None = None) -> SlurmPast:
        """What they tell together.

        ``unknown_ms``: since when a node is out of which nobody says since when; None: it is not.
        """
        names_of_flags = ("is_live", "tells_eligible", "lacks_held", "tracks_gpus")
        flags = dict.fromkeys(names_of_flags, pl.Boolean)
        schema = {**_ROW, **job_gpus.OF_TRES, **flags, "rules": pl.Int32, "asked_nodes": pl.Int32}
        out = reasons.nodes_out(self._nodes) if self._nodes else None
        names = {name for part in self._jobs.each("cluster", kinds=schema)
                 for name in part["cluster"].unique().to_list()}  # fmt: skip
        named_clusters = sorted(name for name in names if name)
        if len(named_clusters) > 1 and None in names:
            raise _of_which(named_clusters)
        # who names none is of the one that others name: a text of squeue has no column for it
        last_ms, are_several = _last_ms(self._jobs, schema), len(named_clusters) > 1
        words = _Words(out, [*self._waiting], self.rules, last_ms, are_several)
        named = allowed_nodes.named_by(self._asked)
        if self._goes_on:  # a node is told once, and who will name it is not known yet
            named |= {node.name for node in self._nodes}
        booked = self._kept[SlurmReservation]
        inside = reservations.nodes_by_name(booked)
        named |= allowed_nodes.named_inside(self._jobs, inside)
        told_names = allowed_nodes.names_of(self._nodes, self._kept[SlurmPartition], named)
        allowed = [allowed_nodes.allowed(one, told_names) for one in self._asked]
        fleet = nodes.fleet_of(
            self._nodes, self._kept[SlurmNodeEvent], booked, unknown_ms, told_names
        )
        per_gpu, numbers = gpu_parts.shards_per_gpu(self._nodes), GatheredRows()
        shapes, held, lost, times = list[Shape](), 0, 0, suspended.SuspendedTimes()
        kept, unkept, refused = GatheredRows(), dict[str, str](), 0
        now_ms = max(last_ms, self._now_ms or 0)
        kept_nodes = reservations.keeping(booked, now_ms)
        # of one that is watched who decides was told before, and a reservation may come later
        reserved = ReservedNodes(inside, {} if self._goes_on else kept_nodes, {})
        for told in _ranges(self._jobs, schema, are_several=are_several):
            numbers.add(job_names.other_numbers(told, are_several=are_several))
            attempts, waits = _attempts(told, words)
            attempts = whole_nodes.as_asked(attempts, fleet.nodes, [*self._asked])
            attempts = allowed_nodes.with_rules(times.take(attempts), allowed, unkept)
            attempts = allowed_nodes.with_unkept(attempts, reserved, unkept)
            attempts = allowed_nodes.as_asked_now(attempts)
            held += waits
            refused += int(attempts.select(outcomes.IS_REFUSED.sum()).item() or 0)
            if are_several:
                attempts = clusters.by_cluster(attempts, fleet.nodes)
            else:
                attempts = attempts.with_columns(cluster=pl.lit(None, pl.String))
            attempts, shapes = spread.as_gangs(attempts, fleet.nodes, fleet.parts, shapes)
            attempts = nodes.on_parts(attempts, fleet.parts)
            attempts = gpu_parts.as_instances(attempts, fleet.instances)
            attempts, shapes = het.as_gangs(attempts, shapes)
            attempts, shapes, unknown = gpu_parts.as_parts(attempts, per_gpu, shapes)
            lost += unknown
            kept.add(attempts)
        unread = reservations.said(kept_nodes)
        teams = {team for part in kept.each("team") for team in part["team"].unique().to_list()}
        queues = accounts.queues_of(
            self.rules, teams, {kind_of(node.gpu_type) for node in fleet.nodes},
            {*named_clusters}, unread,
        )  # fmt: skip
        paused, said = times.told(last_ms)
        notes = (
            *self._notes,
            *eligibility.said_held(held),
            *outcomes.said_refused(refused),
            *allowed_nodes.said(unkept),
            *gpu_parts.said(lost),
            *fleet.notes,
            *said,
        )
        return SlurmPast(
            kept, fleet.nodes, (*notes, *unread), self._refused, numbers, queues, tuple(unread),
            shapes, paused, times.rows(), self._untold_states(),
            {job: deciders.UNKEPT + words for job, words in unkept.items()},
            dict.fromkeys(named_clusters if are_several else ("",), SLURM),
            reservations.site_rules(
                booked, reserved.asked, () if are_several else self.rules.partitions
            ),
        )  # fmt: skip


def _ranges(
    jobs: GatheredRows, schema: gathered.Kinds, *, are_several: bool
) -> Iterator[pl.DataFrame]:
    """Rows of jobs, those of one job together: all at once, or by ranges of names.

    What several clusters tell is looked at as a whole: what they share is told apart.
    """
    if jobs.rows <= gathered.AT_ONCE or are_several:
        yield job_names.each_task(jobs.frame(schema))
        return

    whole = job_names.name(are_several=False).str.replace(het.PART_NUMBER, "").alias("_name")
    names = (part.select(whole).to_series() for part in jobs.each(*job_names.NUMBERS, kinds=schema))
    told = (job_names.each_task(part).with_columns(whole) for part in jobs.each(kinds=schema))
    ranges = gathered.by_range(told, names, jobs.rows, "_name")
    jobs.drop()
    while ranges:
        if len(one := ranges.pop(0)):
            yield one.take().select(*schema)


def _last_ms(jobs: GatheredRows, schema: gathered.Kinds) -> int:
    """The last moment that any row tells."""
    times = ("submit_ms", "start_ms", "end_ms")
    last = (part[name].max() for part in jobs.each(*times, kinds=schema) for name in times)
    return max((ms for ms in last if isinstance(ms, int)), default=0)


def _of(path: Path, error: SpecError) -> SpecError:
    """The same refusal, with the file that it is about."""
    is_named = f"`{path}`" in error.message
    return error if is_named else SpecError(f"`{path}`: {error.message}", hint=error.hint)


def _of_which(clusters: Sequence[str]) -> SpecError:
    """Jobs that name no cluster beside those of several: they may be the same ones."""
    return SpecError(
        f"jobs of several clusters ({', '.join(clusters)}) beside jobs that name no cluster, as in"
        " texts of squeue and of scontrol show job: nobody says of which cluster those are",
        hint="import each cluster into a journal of its own (sacct --clusters NAME …), or give"
        " squeue --json, which names it",
    )


class _Words(NamedTuple):
    """What the reasons of waiting jobs are explained with."""

    out: frozenset[str] | None
    """Nodes that take no work, if anybody said."""
    waiting: list[WaitingJob]
    """Those that wait, by number."""
    rules: LimitRules
    now_ms: int
    """The last moment that anything tells."""
    are_several: bool
    """Whether there are several clusters."""


def _attempts(told: pl.DataFrame, words: _Words) -> tuple[pl.DataFrame, int]:
    """Rows of jobs as attempts, and how many jobs wait for something else than GPUs."""
    rows = told.with_columns(
        job=job_names.name(are_several=words.are_several),
        word=pl.when(pl.col("state_flags").str.contains("REQUEUED").fill_null(value=False))
        .then(pl.lit("REQUEUED"))
        .otherwise(pl.col("state")),
    )
    del told  # what is dropped of its columns is to be gone
    has_held = pl.col("gpus_allocated").fill_null(0) > 0
    has_held &= pl.col("start_ms").is_not_null()
    outcome = pl.col("word").replace_strict(outcomes.WORDS, default=None, return_dtype=pl.String)
    is_over = pl.col("end_ms").is_not_null() | (pl.col("word") != "RESIZING")
    rows = rows.with_columns(
        outcome=pl.when(is_over).then(outcome),
        start_ms=pl.when(has_held).then(pl.col("start_ms")),
        began_ms="start_ms",
        gpus=pl.when(has_held).then("gpus_allocated").otherwise("gpus_requested"),
        is_suspended=pl.col("state") == "SUSPENDED",
    )
    rows = job_gpus.without_gpus(rows).drop(
        *(name for name in job_names.NUMBERS if name not in _KEPT), *_READ
    )
    rows = eligibility.never_eligible(joined.with_accounting(rows))
    is_open = pl.col("start_ms").is_null() & pl.col("end_ms").is_null()
    is_put_off = eligibility.IS_PUT_OFF.fill_null(value=False)
    is_kept = is_open & is_put_off  # also after an attempt: requeued and held
    is_held = is_put_off | (pl.col("tells_eligible") & ~pl.col("is_live"))
    is_eligible = ~is_open | pl.col("eligible_ms").is_not_null() | ~is_held
    is_eligible &= ~pl.col("was_never")
    rows = rows.with_columns(is_eligible=is_eligible, is_kept=is_kept)
    rows = _once(rows)
    rows = _explained(eligibility.put_off(rows), words)
    is_held = pl.col("reason").is_not_null() & ~pl.col("is_eligible") | pl.col("is_kept")
    held = pl.when(is_held).then(int(Cause.NOT_ELIGIBLE)).otherwise("reason_cause")
    rows = rows.with_columns(reason_cause=held)
    waits = ~pl.col("is_eligible") & (pl.col("gpus") > 0) & pl.col("end_ms").is_null()
    waiting = int(rows.select(waits.sum()).item() or 0)
    attempts = rows.select(
        *_SAME,
        *_KEPT,
        "reservation",
        "is_exclusive",
        cpus=pl.coalesce("cpus", "tres_cpus"),
        team=pl.coalesce("account", pl.lit("unknown")),
        user=pl.coalesce("user", pl.col("uid").cast(pl.String)),
        submit_ms=pl.max_horizontal("submit_ms", "eligible_ms"),
        gpu_type=pl.col("gpu_type"),
        nodes=pl.when(pl.col("start_ms").is_not_null()).then("nodes"),
        node_count=pl.coalesce("node_count", "nodes_requested"),
        is_per_node=job_gpus.is_per_node(),
        limit_ms=pl.col("time_limit_ms"),
        **host_used.used(),
    )
    return attempts, waiting


_LOST = (
    (("End", "Start"), "so nobody knows when its jobs held GPUs: name it in --format"),
    (("Submit",), "so nobody knows how long its jobs waited: name it in --format"),
    (("State",), "so nobody knows how its jobs ended, and those with an end count as done"),
)
"""Columns of sacct, and what is not known where they are missing."""


def _without_columns(opened: SlurmReading) -> Iterator[str]:
    """What a text of sacct or squeue does not say, or says twice."""
    if opened.second_hours:
        told = count_text(opened.second_hours, "time")
        yield (
            f"{told} taken as the second that the clock showed: the first is too early, or does not"
            " agree with Elapsed"
        )
    if opened.output is Output.SQUEUE_TEXT and joined.lacks_gpus(opened.columns):
        yield (
            "its columns do not say how many GPUs jobs have: taken from sacct where that has these"
            f" jobs. To have all: squeue --all --states=all -o '{joined.SQUEUE_FORMAT}'"
        )
    if opened.output is not Output.SACCT_TEXT:
        return
    for names, words in _LOST:
        if lost := [name for name in names if name not in opened.columns]:
            yield f"no column {', '.join(lost)}, {words}"
    if _lacks_held(opened):
        yield "no column AllocTRES: jobs that ran are taken to hold what they requested (ReqTRES)"


def _lacks_held(opened: SlurmReading) -> bool:
    """Whether a text of sacct or squeue says what jobs requested, and not what they were given."""
    names = {name.upper() for name in opened.columns}
    if opened.output is Output.SQUEUE_TEXT:
        return "TRES_ALLOC" not in names
    is_sacct = opened.output is Output.SACCT_TEXT
    return is_sacct and "REQTRES" in names and "ALLOCTRES" not in names


def _explained(rows: pl.DataFrame, words: _Words) -> pl.DataFrame:
    """Why jobs wait, in Slurm's word and in plain ones, with the layer that owns it."""
    names = ["reason", "reason_text", "required_nodes", "rules"]
    waits = (pl.col("state") == "PENDING") & (pl.col("reason") != "")
    # the accounting has `None` of every job that was submitted and says no more of it
    waits &= pl.col("is_live") | (pl.col("reason") != "None")
    told = rows.filter(waits).select(names).unique(maintain_order=True)
    jobs = [WaitingJob() if i is None else words.waiting[i] for i in told["rules"]]
    usable = [evidence.usable(job, words.rules.partitions) for job in jobs]
    found = [
        reasons.meaning(reason, text, required=required, usable=mine, out=words.out)
        for (reason, text, required, _), mine in zip(told.iter_rows(), usable, strict=True)
    ]
    found = [
        evidence.by_rules(one, job, words.rules, words.now_ms)
        for one, job in zip(found, jobs, strict=True)
    ]
    said = [evidence.words(one, job, words.rules) for one, job in zip(found, jobs, strict=True)]
    meant = told.with_columns(
        said=pl.Series(said, dtype=pl.String),
        reason_cause=pl.Series([int(one.cause or 0) for one in found], dtype=pl.Int64),
        reason_layer=pl.Series([one.layer and int(one.layer) for one in found], dtype=pl.Int64),
        waits=pl.lit(value=True),
    )
    asked = rows.select(*names, waits=waits.fill_null(value=False))
    why = asked.join(
        meant, on=[*names, "waits"], how="left", nulls_equal=True, maintain_order="left"
    )
    return rows.with_columns(why.select("reason_cause", "reason_layer", reason="said"))


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """Each attempt once, also where two commands told of it, with its nodes and devices.

    What has ended is believed before what still runs, and what began before what waits: the one is
    younger than the other. Of what waits or runs, `squeue` knows more than the accounting. ``rows``
    are used up.
    """
    waits = pl.col("start_ms").is_null() & pl.col("end_ms").is_null()
    trust = rows.select(trust=2 * pl.col("end_ms").is_null() + ~pl.col("is_live"))["trust"]
    if not trust.is_sorted():
        order = trust.to_frame().with_row_index("row").sort("trust", maintain_order=True)["row"]
        rows = by_job.taken(rows, order)
    key = ["job", "start_ms", "submit_ms"]
    if rows["suspended_ms"].max() or rows["changed_ms"].max():  # the one says it, or the other
        rows = rows.with_columns(pl.col("suspended_ms", "changed_ms", "ran_ms").max().over(key))
    if by_job.distinct(rows.select(key)) < len(rows):
        rows = rows.with_columns(pl.col("cpu_used_ms", "peak_bytes").max().over(key))
        rows = rows.unique([*key, "end_ms"], keep="first", maintain_order=True)
        is_first = pl.int_range(pl.len()).over(key) == 0
        rows = rows.filter(is_first | pl.col("end_ms").is_not_null())
    waiting = rows.filter(waits).select("job")
    begun = rows.select(*key, "end_ms").filter(~waits).join(waiting, on="job", how="semi")
    latest = begun.group_by("job").agg(latest_ms=pl.col("submit_ms").max())
    if len(latest):
        latest_ms = rows.select("job").join(latest, on="job", how="left", maintain_order="left")
        is_later = rows["submit_ms"] > latest_ms["latest_ms"]
        is_kept = rows.select(~waits | latest_ms["latest_ms"].is_null() | is_later).to_series()
        rows = rows if is_kept.all() else rows.filter(is_kept)
    return places.with_devices(places.with_nodes(rows)).drop("node_list", "gres_detail")
