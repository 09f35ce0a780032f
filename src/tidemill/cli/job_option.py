"""A job that is not submitted yet: from a JSON file, or from the options of ``tidemill fit``."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Job, Role, Shape
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.units.mig import geometry as mig

MAX_BYTES = 1_000_000


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
            f"`{path}` is not a job: {error}",
            hint='for example {"name": "t", "shape": {"team": "a", "roles": [{"count": 2}]}}',
        ) from error


def from_options(
    world: World,
    *,
    team: str,
    gpus: int,
    per_node: int,
    kinds: tuple[str, ...],
    cpu_milli: int,
    memory_mib: int,
    priority: int,
    hours: float,
    within: str,
    near: str,
    profile: str = "",
) -> Job:
    """A gang of ``gpus`` accelerators, ``per_node`` to a replica; or so many MIG instances."""
    teams = sorted(world.queue_number)
    team = team or (teams[0] if len(teams) == 1 else "")
    if team not in world.queue_number:
        asked = f"team `{team}` is unknown" if team else "whose job is it? --team is missing"
        raise SpecError(asked, hint=f"teams: {', '.join(teams) or 'the journal has none yet'}")
    _refuse_misspelt(world, kinds)
    largest = max((row.node.devices for row in world.contract_rows), default=8)
    size = 1 if profile else per_node or min(gpus, largest)
    if gpus % size:
        raise SpecError(
            f"{gpus} accelerators do not divide into replicas of {size}",
            hint="give a --per-node that divides --gpus",
        )
    role = Role(count=gpus // size, accelerators=size, cpu_milli=cpu_milli,
                memory_mib=memory_mib, kinds=kinds)  # fmt: skip
    if profile:
        milli = mig.share_of(profile, kinds or world.kinds)
        role = replace(role, count=gpus, accelerators=1, milli=milli, profile=profile)
    bonds = ((Bond(within),) if within else ()) + ((Bond(near, 0, False),) if near else ())
    shape = Shape(team, (role,), priority=priority, bonds=bonds)
    return Job(name="(not submitted)", shape=shape, estimate_ms=round(hours * HOUR_MS))


def _refuse_misspelt(world: World, kinds: tuple[str, ...]) -> None:
    """A kind that nobody claimed is an answer (it never fits); one written otherwise is a slip."""
    known = {kind.lower(): kind for kind in world.kinds}
    for kind in kinds:
        if kind not in world.kind_number and kind.lower() in known:
            raise SpecError(f"no contract has `{kind}`", hint=f"is `{known[kind.lower()]}` meant?")
