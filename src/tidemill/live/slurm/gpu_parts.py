"""Parts of GPUs: MIG instances that Slurm lists as GPUs of a type of their own, and shards.

An instance is a part of a device of which Slurm does not speak: `a100_3g.20gb` names it, `1g.10gb`
on a node with whole GPUs of one type that divides so is taken as a part of such a one. Then as many
devices are paid for as hold what is listed, and each instance is its share of them (``cut_gpus``).
Where the device is not known, instances count as one each, and the history says so. Shards divide
the GPUs of a node evenly.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import polars as pl

from tidemill.live.history import cut_gpus
from tidemill.live.history.attempts import kind_of
from tidemill.live.history.clusters import kept_to
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.slurm import amounts
from tidemill.live.slurm.rows import SlurmNode
from tidemill.model.measures import WHOLE_MILLI, count_text
from tidemill.model.rows import Role, Shape
from tidemill.units.mig import geometry as mig

_PROFILE = re.compile(r"(?:^|[_.-])(\d+g\.\d+gb(?:[.+]me)?)$", re.IGNORECASE)
_LARGER = ("", "-80GB")
"""What is tried behind the name of a device: that of its larger model is often left out."""
_Row = dict[str, Any]


class GpuInstance(NamedTuple):
    """A MIG instance: of which GPU type, which profile, and what share of a device."""

    kind: str
    profile: str
    milli: int
    """By its memory."""

    @property
    def shown(self) -> str:
        """What the books call it."""
        return cut_gpus.type_of(self.kind, self.profile)


def instance_of(gpu_type: str, beside: Collection[str]) -> GpuInstance | None:
    """What a type of GPUs is an instance of; ``beside``: types of whole GPUs of the same node."""
    found = _PROFILE.search(gpu_type)
    if found is None:
        return None
    named, profile = gpu_type[: found.start()], found[1].lower()
    devices = [named] if named else list(beside) if len(beside) == 1 else []
    for kind in (kind_of(device + more) for device in devices for more in _LARGER):
        geometry = mig.of_kind(kind)
        row = geometry.find(profile) if geometry is not None else None
        if geometry is not None and row is not None:
            return GpuInstance(kind, row.name, geometry.milli(row))
    return None


def units_of(some: Mapping[GpuInstance, int]) -> dict[GpuInstance, Fraction]:
    """How much of a device each of so many instances of one device type is."""
    (kind,) = {instance.kind for instance in some}
    devices = cut_gpus.fewest(kind, {one.profile: number for one, number in some.items()})
    sizes = {one: Fraction(number * one.milli) for one, number in some.items()}
    behind = cut_gpus.behind(sizes, Fraction(devices))
    return {one: behind[one] / number for one, number in some.items()}


def shards_per_gpu(nodes: Iterable[SlurmNode]) -> dict[str, int]:
    """By node, into how many shards each of its GPUs is divided, or each of the type that is.

    Of a node with several types Slurm says it by type: `shard:a100:8,shard:1g.10gb:0`.
    """
    found = dict[str, int]()
    for node in nodes:
        listed = amounts.gres(node.gres or "") or ()
        shards = [one for one in listed if one.name == "shard" and one.number]
        parts = {Fraction(one.number, gpus) for one in shards if (gpus := _gpus(listed, one.type))}
        each = parts.pop() if len(parts) == 1 else Fraction(0)
        if each and each.denominator == 1:
            found[node.name] = each.numerator
    return found


def _gpus(listed: Iterable[amounts.Gres], gpu_type: str | None) -> int:
    """How many GPUs a node has: of a type, or where shards say none, all."""
    return sum(one.number for one in listed if one.name == "gpu" and gpu_type in (None, one.type))


class Divided(NamedTuple):
    """Attempts in which those that hold parts of GPUs say so, by what they request."""

    attempts: pl.DataFrame
    shapes: list[Shape]
    lost: int
    """Attempts that held shards of GPUs of which nobody says how many a GPU has."""


def said(lost: int) -> list[str]:
    """Attempts that are not booked, in words."""
    if not lost:
        return []
    are = count_text(lost, "attempt")
    return [f"{are} held shards of GPUs of which nobody says how many a GPU has: not booked"]


def as_instances(
    rows: pl.DataFrame, instances: Mapping[tuple[str, str], GpuInstance]
) -> pl.DataFrame:
    """Attempts of MIG instances (by node and type) by what the books call those."""
    types = {gpu_type for _, gpu_type in instances}
    if not types or not rows["gpu_type"].is_in(list(types)).any():
        return rows
    found = list[str | None]()
    for gpu_type, nodes in rows.select("gpu_type", "nodes").iter_rows():
        found.append(_instance(gpu_type, nodes or (), instances).shown if gpu_type in types
                     else gpu_type)  # fmt: skip
    return rows.with_columns(gpu_type=pl.Series(found, dtype=pl.String))


def _instance(
    gpu_type: str, nodes: Iterable[str], known: Mapping[tuple[str, str], GpuInstance]
) -> GpuInstance:
    """What the instances of an attempt are; where it waits, as any node has them."""
    on = (known.get((_machine(name), gpu_type)) for name in nodes)
    every = {one for (_, name), one in known.items() if name == gpu_type}
    return next((one for one in on if one is not None), None) or min(every)


def as_parts(rows: pl.DataFrame, shards: Mapping[str, int], shapes: list[Shape]) -> Divided:
    """Attempts of shards (by node); others as they are.

    ``shapes``: what others request, before whom they are not numbered.
    """
    is_part = pl.col("shards").is_not_null()
    rest, parts = rows.filter(~is_part).drop("shards"), rows.filter(is_part)
    if not len(parts):
        return Divided(rest, shapes, 0)
    made, lost, shapes = list[_Row](), 0, list(shapes)
    number = dict[Shape, int]()
    for row in parts.iter_rows(named=True):
        role = _shards(row, shards)
        if role is None:
            lost += 1
            continue
        shape = Shape(row["team"], (kept_to(role, row["cluster"], row["node_rules"]),))
        if shape not in number:
            number[shape] = len(shapes)
            shapes.append(shape)
        made.append(_row(row, role) | {"shape": number[shape]})
    names = [name for name in (*rest.columns, "shape", "roles") if name in ATTEMPTS]
    frame = pl.DataFrame(
        [{name: row.get(name) for name in names} for row in made],
        schema={name: ATTEMPTS[name] for name in dict.fromkeys(names)},
    )
    return Divided(pl.concat([rest, frame], how="diagonal"), shapes, lost)


def _shards(row: _Row, per_gpu: Mapping[str, int]) -> Role | None:
    """Shards of one GPU on each node; where it asks for more than one has, each by itself."""
    on = {per_gpu.get(_machine(name)) for name in row["nodes"] or ()} or {*per_gpu.values()}
    per = on.pop() if len(on) == 1 else None
    if not per:
        return None
    nodes = max(1, len(row["nodes"] or ()), row["node_count"] or 0)
    each = row["shards"] // nodes if row["shards"] % nodes == 0 else 0
    if not 0 < each <= per:
        nodes, each = row["shards"], 1
    return Role("shards", nodes, 1, max(1, WHOLE_MILLI * each // per), **_host(row, nodes))


def _host(row: _Row, count: int) -> dict[str, Any]:
    """What each of so many replicas has beside its part of a GPU."""
    cpus, memory = row["cpus"] or 0, row["memory_mib"] or 0
    return {"cpu_milli": 1000 * cpus // count, "memory_mib": memory // count}


def _row(row: _Row, role: Role) -> _Row:
    """The attempt, replica by replica."""
    nodes, count = row["nodes"] or (), role.count
    seats = [nodes[i * len(nodes) // count] for i in range(count)] if nodes else []
    return row | {
        "gpus": max(1, -(-count * role.milli // WHOLE_MILLI)),
        "gpu_type": role.kinds[0] if role.kinds else row["gpu_type"],
        "nodes": seats or None, "roles": [0] * len(seats) or None,
        "devices": [0] * len(seats) or None,
    }  # fmt: skip


def _machine(node: str) -> str:
    """The machine that a node on the books is of: one with GPUs of several types is several."""
    return node.partition(":")[0]
