"""Attempts whose replicas are not whole on their nodes: divided by GPU, so that what is is booked.

Two things of a source may contradict each other: a replica has more GPUs than its node is listed
with, or some of its GPUs are others' at the time. A replica holds all of its GPUs or none, so its
job is booked with each GPU as a replica by itself: those that are there count, the others are
*over* (``seating``). One that finds none holds nothing until it finds some, and works from then on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.live.history import held
from tidemill.live.history.gathered import Tables, columns_of
from tidemill.live.history.rows import NEVER_UP_MS, AttemptEnd
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI, count_text
from tidemill.model.rows import MAX_DEVICES, Role, Shape

UNFIT = "unfit"
"""The column that says why an attempt is divided by GPU, where its node is too small."""
_SHOWN = ("start_ms", "end_ms", "each", "replicas", "nodes", "roles", "shape")


class Fitted(NamedTuple):
    """Attempts (or jobs) of which those that did not fit are divided by GPU."""

    rows: pl.DataFrame
    """With ``UNFIT``, where they are attempts."""
    shapes: Sequence[Shape]
    """What jobs request by number; those that are divided have new ones behind the others."""
    divided: dict[str, frozenset[int]]
    """By job the roles that are; 0 for one that is told by columns."""


def fit(
    rows: pl.DataFrame,
    sizes: Mapping[str, int],
    shapes: Sequence[Shape],
    crowded: Sequence[str] = (),
) -> Fitted:
    """Divide the jobs of attempts that do not fit; ``sizes``: how many GPUs nodes have.

    ``crowded``: jobs of which some GPUs are others'.
    """
    large = _too_large(rows, sizes, shapes)
    words = [f"{each} on {node}, listed with {sizes[node]}" for _, _, _, each, node in large]
    said: list[str | None] = [None] * (len(rows) if large else 0)
    for (row, *_), text in zip(large, words, strict=True):
        said[row] = text
    unfit = pl.Series(said, dtype=pl.String) if large else pl.lit(None, pl.String)
    found = dict[str, set[int]]()
    for job, role in (
        *((job, role) for _, job, role, _, _ in large),
        *((job, 0) for job in crowded),
    ):
        found.setdefault(job, set()).add(role)
    divided = {job: frozenset(roles) for job, roles in found.items()}
    return by_gpu(rows.with_columns(unfit.alias(UNFIT)), shapes, divided)


def are_large(tables: Tables, sizes: Mapping[str, int], shapes: Sequence[Shape]) -> bool:
    """Whether any attempt has replicas larger than their node."""
    each = columns_of(tables, "job", *_SHOWN)
    return any(_too_large(rows, sizes, shapes) for rows in each)


def said(tables: Iterable[pl.DataFrame]) -> list[str]:
    """Attempts that had more GPUs than their nodes, in words."""
    each = [rows.filter(pl.col(UNFIT).is_not_null()).select("job", UNFIT) for rows in tables]
    large = pl.concat(each) if each else pl.DataFrame()
    if not len(large):
        return []
    job, why = large.sort("job").row(0)
    are = f"{count_text(len(large), 'attempt')} had"
    words = f"{are} more GPUs than the node is listed with (`{job}`: {why})"
    return [f"{words}: booked are those that it has"]


def said_over(count: int, names: Sequence[str]) -> list[str]:
    """Attempts of which a part found no device, in words; ``names``: the first of their jobs."""
    if not count:
        return []
    shown = ", ".join(f"`{name}`" for name in names[:3]) + (" and more" if len(names) > 3 else "")
    are = count_text(count, "attempt")
    words = f"{are} shown on GPUs that others held, or that the node does not have ({shown})"
    rest = "who found none at all, and is no gang, is from when one is free"
    return [f"{words}: what found no free GPU is not booked; {rest}"]


def _too_large(
    rows: pl.DataFrame, sizes: Mapping[str, int], shapes: Sequence[Shape]
) -> list[tuple[int, str, int, int, str]]:
    """Attempts with replicas larger than their node: row, job, role, GPUs, the first such node."""
    least = min(sizes.values(), default=MAX_DEVICES)
    is_there = pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0)
    some = rows.select("job", "each", "nodes", "roles", "shape", "start_ms")
    some = some.with_row_index("row").filter(is_there)
    plain = some.filter(pl.col("shape").is_null() & (pl.col("each") > least))
    seats = plain.select("row", "job", "each", "nodes", role=0).explode("nodes")
    told = some.filter(pl.col("shape").is_not_null() & pl.col("roles").is_not_null())
    large = [(s, r, role.accelerators) for s in told["shape"].unique().to_list()
             for r, role in enumerate(shapes[s].roles) if is_whole(role) > least]  # fmt: skip
    if large:
        schema = {"shape": pl.Int64, "roles": pl.Int64, "each": pl.Int64}
        asked = pl.DataFrame(large, schema=schema, orient="row")
        gangs = told.select("row", "job", "nodes", "roles", "shape").explode("nodes", "roles")
        gangs = gangs.join(asked, on=["shape", "roles"], maintain_order="left")
        roles = gangs.select("row", "job", "each", "nodes", role="roles")
        seats = pl.concat([seats.cast({"role": pl.Int64}), roles.cast({"each": pl.Int64})])
    size = pl.col("nodes").replace_strict(sizes, default=MAX_DEVICES, return_dtype=pl.Int64)
    found = seats.filter(pl.col("nodes").is_not_null() & (pl.col("each") > size))
    found = found.unique(["row", "role"], keep="first", maintain_order=True)
    return list(found.select("row", "job", "role", "each", "nodes").iter_rows())


def is_whole(role: Role) -> int:
    """How many whole GPUs a replica has that may be divided; 0: it has parts of them."""
    return role.accelerators if role.milli == WHOLE_MILLI and not role.profile else 0


def by_gpu(
    rows: pl.DataFrame, shapes: Sequence[Shape], divided: Mapping[str, frozenset[int]]
) -> Fitted:
    """Attempts, or jobs, in which each GPU of these jobs (of these roles) is a replica."""
    if not divided:
        return Fitted(rows, shapes, {})
    is_one = pl.col("job").is_in(list(divided)) & pl.col("shape").is_null()
    gpus = pl.col("each") * pl.col("replicas")
    rows = rows.with_columns(
        each=pl.when(is_one).then(1).otherwise("each").cast(pl.Int64),
        replicas=pl.when(is_one).then(gpus).otherwise("replicas").cast(pl.Int64),
    )
    is_gang = pl.col("job").is_in(list(divided)) & pl.col("shape").is_not_null()
    numbered = rows.with_row_index("row")
    gangs = numbered.filter(is_gang)
    if not len(gangs):
        return Fitted(rows, shapes, dict(divided))
    every, number = [*shapes], dict[tuple[int, frozenset[int]], int]()
    made = list[dict[str, Any]]()
    for row in gangs.iter_rows(named=True):
        s, roles = row["shape"], divided[row["job"]]
        if (s, roles) not in number:
            number[s, roles] = len(every)
            every.append(_shape_by_gpu(shapes[s], roles))
        seats = _seats_by_gpu(row, shapes[s], roles) if row.get("nodes") else {}
        made.append(row | seats | {"shape": number[s, roles]})
    told = pl.DataFrame(made, schema=gangs.schema)
    both = pl.concat([numbered.filter(~is_gang.fill_null(value=False)), told]).sort("row")
    return Fitted(both.drop("row"), every, dict(divided))


def _shape_by_gpu(shape: Shape, roles: frozenset[int]) -> Shape:
    """A shape in which each GPU of these roles is a replica; which sit together, nobody asks."""
    made = list[Role]()
    for r, role in enumerate(shape.roles):
        each = is_whole(role) if r in roles else 0
        if each > 1:
            role = replace(  # noqa: PLW2901 - the same role, in other parts
                role, count=role.count * each, accelerators=1, least=role.least * each,
                cpu_milli=role.cpu_milli // each, memory_mib=role.memory_mib // each, bonds=(),
            )  # fmt: skip
        made.append(role)
    return replace(shape, roles=tuple(made), speedup=(), bonds=(), parallelism=None)


def _seats_by_gpu(row: Mapping[str, Any], shape: Shape, roles: frozenset[int]) -> dict[str, Any]:
    """Where the replicas of an attempt are, once for each GPU of these roles."""
    nodes, seats, masks = list[str](), list[int](), list[int]()
    told = row["devices"] or repeat(0)
    for node, r, mask in zip(row["nodes"], row["roles"], told, strict=False):
        each = max(1, is_whole(shape.roles[r])) if r in roles else 1
        devices = [d for d in range(MAX_DEVICES) if mask >> d & 1] if each > 1 else []
        nodes += [node] * each
        seats += [r] * each
        masks += [1 << d for d in devices] if len(devices) == each else [mask * (each == 1)] * each
    return {"nodes": nodes, "roles": seats, "devices": masks if row["devices"] else None}


BRIEF_MS = 60_000
"""So long after its start an attempt of a history takes what others leave: clocks of sources, and
times in whole seconds or minutes, make who ends and who begins overlap."""


class RoomShown(NamedTuple):
    """What nodes have, as a source shows it."""

    sizes: Mapping[str, int]
    """How many GPUs, by name."""
    brief_ms: int = 0
    """So long after its start an attempt takes what others leave (``BRIEF_MS`` at most)."""


class Crowd(NamedTuple):
    """Attempts that find GPUs of theirs held by others, by what is shown."""

    jobs: list[str]
    """Those with replicas of several GPUs that find some of them and not all."""
    later: dict[int, list[int]]
    """By row, of all tables: when one that found nothing finds a GPU, or one that found too little
    finds more; none: never."""

    def up_to(self, until_ms: int) -> "Crowd":
        """The same, of which what comes after a moment is yet to come."""
        return self._replace(later={
            row: [at_ms for at_ms in moments if at_ms <= until_ms]
            for row, moments in self.later.items()
        })  # fmt: skip


def crowd(
    tables: Tables, sizes: Mapping[str, int], shapes: Sequence[Shape], brief_ms: int = 0
) -> Crowd:
    """Who finds less than it is shown to hold.

    ``brief_ms``: how long after its start one that found some takes more; an observer knows so much
    of the time to come as it is behind. Gangs of several replicas wait no longer than that: an
    observer tells them pod by pod, and what an import would know by looking back it does not.
    """
    number = {name: n for n, name in enumerate(sizes)}
    parts = list[held.HeldSeats]()
    for rows in columns_of(tables, *_SHOWN):
        some = _seats(rows, shapes)
        node = some["nodes"].replace_strict(number, default=None, return_dtype=pl.Int32)
        is_known = node.is_not_null()
        parts.append(held.HeldSeats.of(some.filter(is_known), node.drop_nulls(), "held"))
    most = held.most(parts, len(sizes))
    overfull = {name: sizes[name] for n, name in enumerate(sizes) if most[n] > sizes[name]}
    del parts
    if not overfull:
        return Crowd([], {})
    return _walked(_shown_on(tables, overfull, shapes), overfull, brief_ms)


def begin_later(rows: pl.DataFrame, later: Mapping[int, Sequence[int]]) -> pl.DataFrame:
    """Attempts that found too little, by row: they do not work until they find what they find.

    Each is several rows then, of one attempt: what it holds grows, as that of a gang that comes up
    pod by pod.
    """
    if not later:
        return rows
    told = rows.with_row_index("row")
    is_waiting = pl.col("row").is_in([*later])
    some = [
        piece
        for row in told.filter(is_waiting).iter_rows(named=True)
        for piece in _grown(row, later[row["row"]])
    ]
    both = pl.concat([told.filter(~is_waiting), pl.DataFrame(some, schema=told.schema)])
    return both.sort("row", "start_ms").drop("row")


def _grown(row: dict[str, Any], moments_ms: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A row for each time between the moments of an attempt."""
    at_ms, end_ms = row["start_ms"], row["end_ms"]
    if not moments_ms:  # it was at work, on nothing
        yield row | {"up_ms": NEVER_UP_MS if end_ms is None else max(at_ms, end_ms - 1)}
        return
    before = {"up_ms": NEVER_UP_MS, "outcome": AttemptEnd.CHANGED, "is_last": False}
    for until_ms in moments_ms:
        ends = {name: until_ms for name in ("end_ms", "shown_end_ms") if name in row}
        yield row | before | ends | {"start_ms": at_ms}
        at_ms = until_ms
    up_ms = at_ms if row["up_ms"] is None else row["up_ms"]
    is_up = end_ms is not None and up_ms < NEVER_UP_MS
    last_ms = min(up_ms, end_ms - 1) if is_up else up_ms
    yield row | {"start_ms": at_ms, "up_ms": max(at_ms, last_ms)}


def _seats(rows: pl.DataFrame, shapes: Sequence[Shape]) -> pl.DataFrame:
    """What attempts are shown to hold (``held``): a row for each of them and of its nodes.

    ``is_apart``: whether its replicas may be divided by GPU. Who has parts of GPUs is not there.
    """
    is_there = pl.col("start_ms").is_not_null() & (pl.col("nodes").list.len() > 0)
    is_there &= (pl.col("end_ms") != pl.col("start_ms")).fill_null(value=True)
    every = rows.with_row_index("row").filter(is_there)
    count = pl.col("nodes").list.len().cast(pl.Int64)
    share = (pl.col("replicas") + count - 1) // count
    some = every.filter(pl.col("shape").is_null())
    some = some.with_columns(share=share, nth=pl.int_ranges(count)).explode("nodes", "nth")
    mine = (pl.col("replicas") - pl.col("nth") * pl.col("share")).clip(0, pl.col("share"))
    columns = ("row", "nodes", "start_ms", "end_ms", pl.col("each").cast(pl.Int64))
    plain = some.select(*columns, held=mine * pl.col("each"), is_apart=True)
    told = every.filter(pl.col("shape").is_not_null() & pl.col("roles").is_not_null())
    if len(told):
        asked = pl.DataFrame(
            [(s, r, is_whole(role), is_one(shapes[s])) for s in told["shape"].unique().sort()
             for r, role in enumerate(shapes[s].roles)],
            schema={"shape": pl.Int64, "roles": pl.Int64, "each": pl.Int64, "is_apart": pl.Boolean},
            orient="row",
        )  # fmt: skip
        pods = told.drop("each").explode("nodes", "roles").join(
            asked, on=["shape", "roles"], maintain_order="left"
        )  # fmt: skip
        plain = pl.concat([plain, pods.select(*columns, held="each", is_apart="is_apart")])
    return plain.filter((pl.col("held") > 0) & pl.col("nodes").is_not_null())


def is_one(shape: Shape) -> bool:
    """Whether a job is one replica: a pod by itself, that is there whole or not at all."""
    return sum(role.count for role in shape.roles) == 1


class _Shown:
    """An attempt that is shown on nodes that others are shown on too."""

    def __init__(self, job: str, *, is_elsewhere: bool) -> None:
        self.job, self.is_seated = job, is_elsewhere
        """Whether it holds something."""
        self.seats: list[tuple[str, int, int, bool]] = []
        """Nodes, GPUs of a replica, all GPUs, and whether replicas may be divided."""
        self.got: list[int] = []
        """Of each of its seats, the GPUs that it found."""
        self.turns_ms = (0, 0)
        """When it begins and ends."""

    @property
    def nodes(self) -> list[str]:
        """Those of its nodes that others are shown on too."""
        return [node for node, *_ in self.seats]

    @property
    def lacks(self) -> bool:
        """Whether it found less than it is shown to hold."""
        return any(got < gpus for got, (_, _, gpus, _) in zip(self.got, self.seats, strict=True))

    @property
    def is_gang(self) -> bool:
        """Whether it has replicas that are there whole or not at all."""
        return not all(is_apart for *_, is_apart in self.seats)

    @property
    def is_parted(self) -> bool:
        """Whether it found some GPUs of a replica, and not all of them."""
        return any(got % each for got, (_, each, _, _) in zip(self.got, self.seats, strict=True))

    def take(self, free: dict[str, int]) -> int:
        """Take what is free of its nodes and it does not have; how many GPUs that are."""
        found = 0
        self.got = self.got or [0] * len(self.seats)
        for i, (node, each, gpus, is_apart) in enumerate(self.seats):
            taken = min(free[node], gpus - self.got[i])
            taken -= 0 if is_apart else taken % each
            free[node] -= taken
            self.got[i] += taken
            found += taken
        return found

    def give_back(self, free: dict[str, int]) -> Iterator[str]:
        """It is over; the nodes of which it had something."""
        for (node, *_), gpus in zip(self.seats, self.got, strict=True):
            free[node] += gpus
            if gpus:
                yield node


def _shown_on(
    tables: Tables, sizes: Mapping[str, int], shapes: Sequence[Shape]
) -> dict[int, _Shown]:
    """What is shown on these nodes, by row of all tables."""
    found, first = dict[int, _Shown](), 0
    for rows in columns_of(tables, *_SHOWN, "job"):
        every, jobs = _seats(rows, shapes), rows["job"]
        some = every.filter(pl.col("nodes").is_in(list(sizes)))
        elsewhere = frozenset(every.filter(~pl.col("nodes").is_in(list(sizes)))["row"].to_list())
        for row, node, start_ms, end_ms, *seat in some.iter_rows():
            one = found.get(first + row)
            if one is None:
                one = found[first + row] = _Shown(jobs[row], is_elsewhere=row in elsewhere)
            one.turns_ms = start_ms, FOREVER_MS if end_ms is None else end_ms
            one.seats.append((node, *seat))
        first += len(rows)
    return found


def _walked(shown: Mapping[int, _Shown], sizes: Mapping[str, int], brief_ms: int) -> Crowd:
    """Seat attempts in the order of time, as ``seating`` does: who ends first gives back."""
    free, jobs, later = dict(sizes), dict[str, None](), dict[int, list[int]]()
    turns, lacking = dict[int, tuple[list[int], list[int]]](), dict[int, bool]()
    for row, one in shown.items():
        for is_end, at_ms in enumerate(one.turns_ms):
            turns.setdefault(at_ms, ([], []))[is_end].append(row)
    for at_ms in sorted(turns):
        starts, ends = turns[at_ms]
        freed = {node for row in ends for node in shown[row].give_back(free)}
        lacking = {row: has_none for row, has_none in lacking.items() if row not in ends}
        waiting = [
            row for row, has_none in lacking.items()
            if (has_none or at_ms - shown[row].turns_ms[0] <= brief_ms)
            and not freed.isdisjoint(shown[row].nodes)
        ]  # fmt: skip
        for row in sorted([*waiting, *starts]):
            one, is_new = shown[row], row not in lacking
            found = one.take(free)
            if one.is_parted:
                jobs[one.job] = None
            if is_new and one.lacks:
                lacking[row] = not (found or one.is_seated or one.is_gang)
                later |= {row: []} if lacking[row] else {}
            elif found and not is_new:
                later.setdefault(row, []).append(at_ms)
                lacking[row] = False  # what it has works from now on
    return Crowd([*jobs], later)
