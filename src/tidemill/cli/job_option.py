"""A job that is not submitted yet: from a JSON file, or from the options of ``tidemill fit``."""

import math
import re
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tidemill.explain import phrasing
from tidemill.model import decoding
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.model.node_rules import Pair
from tidemill.model.rows import (
    LEAST_PRIORITY,
    MAX_COUNT,
    MAX_DEVICES,
    MOST_PRIORITY,
    OF,
    PARTITION,
    Job,
    Role,
    Shape,
    whole_type,
)
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.twin.fleet import replica_size
from tidemill.units.mig import geometry as mig

MAX_BYTES = 1_000_000
_GPUS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?")


def from_file(path: Path) -> Job:
    """Read one job row."""
    try:
        data = path.read_bytes()[: MAX_BYTES + 1]
        if len(data) > MAX_BYTES:
            raise SpecError(f"`{path}` is over {MAX_BYTES:,} bytes", hint="give one job row")
        return msgspec.json.decode(data, type=Job)
    except OSError as error:
        raise SpecError(f"`{path}` cannot be read: {error.strerror}", hint="check it") from error
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise SpecError(
            f"`{path}` is not a job: {decoding.in_words(error, data, Job)}",
            hint='for example {"name": "t", "shape": {"team": "a", "roles": [{"count": 2}]}}',
        ) from error


def from_options(
    world: World,
    *,
    team: str,
    gpus: str,
    per_node: int,
    kinds: tuple[str, ...],
    cpus: float | None,
    memory_gib: float | None,
    priority: int,
    hours: float,
    within: str,
    near: str,
    profile: str = "",
    partition: str = "",
    tolerates: tuple[Pair, ...] = (),
    is_cut: bool = False,
) -> Job:
    """A gang of ``gpus`` accelerators, ``per_node`` to a replica; or so many MIG instances.

    ``is_cut``: whether these are there already, or are not to be had, as on Kubernetes.
    """
    teams = phrasing.teams(world)
    team = team or (teams[0] if len(teams) == 1 else "")
    if team not in world.queue_number:
        asked = f"team `{team}` is unknown" if team else "whose job is it? --team is missing"
        known = ", ".join(teams) or "the journal has none yet"
        other = "; another namespace may be asked about, too" * is_cut
        raise SpecError(asked, hint=f"teams: {known}{other}")
    kinds = _meant(world, kinds)
    if not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise SpecError(
            f"--priority is {priority:,}; a job has one from {LEAST_PRIORITY:,} to"
            f" {MOST_PRIORITY:,}",
            hint="give one of those: jobs with a higher priority go first",
        )
    _refuse_endless(cpus=cpus or 0, memory_gib=memory_gib or 0, hours=hours)
    _refuse_unknown_partition(world, partition)
    host = Role(
        cpu_milli=round((cpus or 0) * 1000), memory_mib=round((memory_gib or 0) * 1024),
        kinds=kinds, tolerates=tolerates,
        labels=((PARTITION + partition, ""),) if partition else (),
    )  # fmt: skip
    milli = _requested_milli(gpus)
    if milli < WHOLE_MILLI:
        if profile or per_node:
            other = "--profile" if profile else "--per-node"
            raise SpecError(
                f"--gpus is {gpus}, a part of one GPU, beside {other}",
                hint="give a part alone, or whole GPUs with that option",
            )
        parts = _parts(world, kinds, f"1/{WHOLE_MILLI // milli}")
        if is_cut and not parts:
            _refuse_uncut(world, f"--gpus is {gpus}", milli)
        role = replace(host, kinds=parts) if parts else replace(host, milli=milli)
    elif profile and (is_cut or any(OF in kind for kind in world.kinds)):
        named = _parts(world, kinds, profile.upper()) or (f"{profile.upper()}{OF}GPU",)
        role = replace(host, count=milli // WHOLE_MILLI, kinds=named)
    elif profile:
        share = mig.share_of(profile, kinds or world.kinds)
        role = replace(host, count=milli // WHOLE_MILLI, milli=share, profile=profile)
    else:
        of_whole = tuple(kind for kind in world.kinds if OF not in kind)
        if not kinds and len(of_whole) < len(world.kinds):
            host = replace(host, kinds=of_whole)  # so many GPUs, and not parts of some
        role = _whole(world, host, milli // WHOLE_MILLI, per_node)
    bonds = ((Bond(within),) if within else ()) + ((Bond(near, 0, False),) if near else ())
    shape = Shape(team, (role,), priority=priority, bonds=bonds)
    return Job(name="(not submitted)", shape=shape, estimate_ms=round(hours * HOUR_MS))


def _refuse_unknown_partition(world: World, partition: str) -> None:
    labels = {key for row in world.node_rows for key, _ in row.labels}
    known = sorted(key.removeprefix(PARTITION) for key in labels if key.startswith(PARTITION))
    if partition and partition not in known:
        told = f"partitions: {', '.join(known)}" if known else "nodes say none; leave it out"
        raise SpecError(f"no node is in a partition `{partition}`", hint=told)


def _parts(world: World, kinds: tuple[str, ...], part: str) -> tuple[str, ...]:
    """Kinds that are such a part of a GPU, of these types or of any: `1/4`, or a MIG profile."""
    return tuple(
        kind for kind in world.kinds if kind.startswith(f"{part}{OF}")
        and (not kinds or kind in kinds or whole_type(kind) in kinds)
    )  # fmt: skip


def refuse_parts(world: World, row: Job) -> None:
    """Refuse a job of a file that wants parts of whole GPUs, where there are none such."""
    for role in row.shape.roles:
        if role.accelerators and role.milli < WHOLE_MILLI and not role.profile:
            _refuse_uncut(world, f"role `{role.name}` has `milli` {role.milli}", role.milli)


def _refuse_uncut(world: World, asked: str, milli: int) -> None:
    """Refuse a part of a GPU where none is given out, unless some job has a fraction (KAI's)."""
    rows = [role for shape in world.shape_rows for role in shape.roles]
    if any(role.accelerators and role.milli < WHOLE_MILLI and not role.profile for role in rows):
        return
    cut = sorted(kind for kind in world.kinds if OF in kind)
    here = f"; here are {', '.join(f'`{kind}`' for kind in cut)}" if cut else ""
    raise SpecError(
        f"{asked}; nothing on the books gives out {milli / WHOLE_MILLI:g} of a GPU: GPUs are"
        f" requested whole{here}",
        hint="ask for one GPU; parts are given out by MIG instances (--profile), by time-slicing or"
        " MPS of the device plugin (--gpus 0.25 of four shares), and by KAI-Scheduler"
        " (gpu-fraction)",
    )


def _whole(world: World, host: Role, gpus: int, per_node: int) -> Role:
    """Replicas of so many; by default the largest equal ones that fit every node it may land on."""
    usable = [row for row in world.contract_rows if not host.kinds or row.kind in host.kinds]
    smallest = min((row.node.devices for row in usable), default=8)
    size = per_node or replica_size(gpus, smallest)
    if size > MAX_DEVICES:
        raise SpecError(f"--per-node is {size}; a node has at most {MAX_DEVICES}", hint="give less")
    if gpus % size:
        raise SpecError(
            f"--gpus is {gpus:,}, which does not divide into replicas of {size}",
            hint="give a --per-node that divides --gpus",
        )
    return replace(host, count=gpus // size, accelerators=size)


def _requested_milli(text: str) -> int:
    """GPUs as people type them, in thousandths: whole ones, or a part of one."""
    hint = "give a whole number such as 64, or a part of one GPU such as 0.5 (to three places)"
    if not _GPUS.fullmatch(text):
        raise SpecError(f"--gpus is `{text}`, which is not a number of GPUs", hint=hint)
    whole, _, part = text.partition(".")
    milli = int(whole) * WHOLE_MILLI + int(part.ljust(3, "0") or 0)
    if not 0 < milli <= MAX_COUNT * WHOLE_MILLI:
        raise SpecError(f"--gpus is {text}; a job has from 0.001 to {MAX_COUNT:,}", hint=hint)
    if milli > WHOLE_MILLI and milli % WHOLE_MILLI:
        raise SpecError(
            f"--gpus is {text}: a job has whole GPUs, or a part of one and no more", hint=hint
        )
    return milli


def _refuse_endless(**given: float) -> None:
    for name, value in given.items():
        if not math.isfinite(value) or value > MAX_COUNT:
            option = f"--{name.replace('_', '-')}"
            shown = f"{value:,.0f}" if math.isfinite(value) else f"{value:g}"
            raise SpecError(f"{option} is {shown}, too much", hint=f"give from 0 to {MAX_COUNT:,}")


def _meant(world: World, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """GPU types as the books call them, each once."""
    _refuse_misspelt(world, kinds)
    return tuple(dict.fromkeys(one for kind in kinds for one in _called(world, kind)))


def _called(world: World, kind: str) -> tuple[str, ...]:
    """What the books call a type that is given as nodes label it (`NVIDIA-H100-80GB-HBM3`)."""
    if kind in world.kind_number or not world.is_observed:
        return (kind,)
    from tidemill.live.kubernetes import resources

    told = resources.product({resources.PRODUCT: kind}, "")
    if told.gpu_type in world.kind_number and not told.profile:
        return (told.gpu_type,)
    cut = f"{told.profile.upper()}{OF}" if told.profile else ""
    parts = (one for one in world.kinds if OF in one and one.startswith(cut))
    return tuple(one for one in parts if whole_type(one) == told.gpu_type) or (kind,)


def _refuse_misspelt(world: World, kinds: tuple[str, ...]) -> None:
    """A kind that nobody claimed is an answer (it never fits); one written otherwise is a slip."""
    known = {kind.lower(): kind for kind in world.kinds}
    for kind in kinds:
        if kind not in world.kind_number and kind.lower() in known:
            raise SpecError(f"no contract has `{kind}`", hint=f"is `{known[kind.lower()]}` meant?")
        near = [one for one in world.kinds if one.lower().startswith(f"{kind.lower()}-")]
        if kind not in world.kind_number and near:
            which = phrasing.either(near)
            several = "; several may be given" if len(near) > 1 else ""
            raise SpecError(
                f"no {'node' if world.is_observed else 'contract'} has `{kind}`",
                hint=f"is {which} meant?{several}",
            )
