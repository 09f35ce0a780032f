"""``tidemill unit mig``: how a GPU divides, and the best layouts for a mix of requests."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text, whole_number

if TYPE_CHECKING:
    from tidemill.units.mig.best import Division
    from tidemill.units.mig.layouts import Layout
    from tidemill.units.mig.profiles import Geometry
    from tidemill.units.mig.relayout import Relayout

EXAMPLES = options.example(
    "tidemill unit mig h100",
    "tidemill unit mig h200 --mix 1g.18gb=4,3g.71gb=1",
    "tidemill unit mig a100-80 --mix 1g.10gb=20,3g.40gb=6 --devices 6 --json",
    "tidemill unit mig h100 --now 3g.40gb:0,1g.10gb:4 --mix 4g.40gb=1,1g.10gb=1",
)
SLICE_WIDTH = 9
MOST = 1_000_000


def mig(
    part: Annotated[
        str, typer.Argument(metavar="GPU", help="A GPU model: h100, a100-80, NVIDIA-H200, …")
    ],
    mix: Annotated[
        str, typer.Option("--mix", help="Requests to host: PROFILE=COUNT, …", metavar="MIX")
    ] = "",
    devices: Annotated[int, typer.Option(help="How many devices host the mix.", min=1)] = 1,
    now: Annotated[
        str, typer.Option("--now", help="What one device carries: PROFILE:START, …", metavar="AT")
    ] = "",
    as_json: options.Json = False,
) -> None:
    """The MIG profiles of a GPU model, where each may be placed, and the best layouts for a mix.

    An instance takes neighbouring slices of the memory axis from one of its legal starts. A slice
    is stranded when no profile can use it any more. The best layout serves the most memory slices,
    then compute slices, then requests, and strands least: exact on one device; on a fleet the
    answer says how much more any division could serve at most. Requests that do not fit are listed
    by profile, and the exit code is then 1.
    """
    import msgspec

    from tidemill.units.mig import best, geometry, relayout

    found = geometry.known(part)
    wanted = _mix(mix)
    division = best.fleet(found, wanted, devices) if wanted else None
    enough = best.devices_for(found, wanted, devices) if division and division.left_out else None
    change = None
    if now:
        if devices != 1 or division is None:
            raise SpecError(
                "--now is the layout of one device that is to be changed for a mix",
                hint="give --mix, and leave out --devices",
            )
        held = best.demand(found, _less(wanted, division.left_out))
        change = relayout.cheapest(found, _layout(found, now), held)
    if as_json:
        document = _document(found, wanted, division, change) | {"devices_for_all": enough}
        screen.json_out(msgspec.json.encode(document))
    else:
        _print_profiles(found)
        if division is not None:
            _print_division(found, division, devices)
            _print_left_out(division, devices, enough)
        if change is not None:
            _print_change(change)
    if division is not None and division.left_out:
        raise typer.Exit(1)


def _mix(text: str) -> dict[str, int]:
    """``1g.10gb=4,3g.40gb`` as counts."""
    found: dict[str, int] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, _, count = item.partition("=")
        number = _count(count or "1")
        if not 1 <= number <= MOST:
            raise SpecError(
                f"--mix has `{item[:100]}`, whose count is not a number from 1 to {MOST:,}",
                hint="write it as 1g.10gb=4,3g.40gb=1",
            )
        found[name.strip()] = found.get(name.strip(), 0) + number
    return found


def _count(text: str) -> int:
    """A number in plain digits; -1 for anything else."""
    try:
        return whole_number(text)
    except ValueError:
        return -1


def _layout(geometry: "Geometry", text: str) -> "Layout":
    """``3g.40gb:0,1g.10gb:4`` as a layout that the part allows."""
    from tidemill.units.mig import geometry as axis
    from tidemill.units.mig.layouts import Instance

    found, state = [], 0
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, _, start = item.partition(":")
        row = axis.profile(geometry, name)
        at = _count(start)
        if at not in row.starts:
            raise SpecError(
                f"--now has `{item[:100]}`; `{row.name}` starts at {_starts(row.starts)}",
                hint="write it as 3g.40gb:0,1g.10gb:4, as `nvidia-smi mig -lgi` lists placements",
            )
        mask = axis.claim(row, at)
        if mask & state:
            raise SpecError(
                f"--now has `{item}` on slices that are taken already",
                hint="instances may not overlap, and one device has one +me instance at most",
            )
        state |= mask
        found.append(Instance(row.name, at))
    return tuple(sorted(found, key=lambda instance: instance.start))


def _less(wanted: dict[str, int], left_out: dict[str, int]) -> dict[str, int]:
    lower = {name.lower(): count for name, count in wanted.items()}
    return {name: count - left_out.get(name, 0) for name, count in lower.items()}


def _starts(starts: tuple[int, ...]) -> str:
    return ", ".join(map(str, starts))


def _print_profiles(geometry: "Geometry") -> None:
    made = screen.table("profile", "compute", "memory", "share", "at most", "SMs", "starts", "how",
                        title=f"{geometry.title}: {geometry.memory} memory slices,"
                        f" {geometry.compute} compute slices")  # fmt: skip
    for row in geometry.profiles:
        made.add_row(row.name, f"{row.compute}/{geometry.compute}",
                     f"{row.memory}/{geometry.memory}", f"{geometry.milli(row) / 10:g}%",
                     str(row.most), "-" if row.sms is None else str(row.sms), _starts(row.starts),
                     row.placement)  # fmt: skip
    out = screen.out()
    out.print(made)
    sources = sorted({row.source for row in geometry.profiles})
    out.print(f"source: {'; '.join(sources)}", style="dim", soft_wrap=True)


def _print_division(geometry: "Geometry", division: "Division", devices: int) -> None:
    from tidemill.units.mig import layouts

    out = screen.out()
    out.print()
    for layout, count in division.devices:
        lost = layouts.waste(geometry, layout)
        out.print(f"{screen.count(count, 'device')}: {_said(layout)}", style="bold")
        for line in axis_lines(geometry, layout):
            out.print(f"  {line}", soft_wrap=True)
        out.print(f"  stranded: {screen.count(lost.memory, 'memory slice')},"
                  f" {screen.count(lost.compute, 'compute slice')};"
                  f" still free: {screen.count(lost.free_memory, 'memory slice')}")  # fmt: skip
    served, total = division.served[0], devices * geometry.memory
    out.print(f"served: {screen.count(division.served[2], 'request')} on {served:,} of {total:,}"
              f" memory slices; no division serves more than {division.at_most:,}")  # fmt: skip


def _print_left_out(division: "Division", devices: int, enough: int | None) -> None:
    """What the devices do not serve, profile by profile, and how many devices would."""
    if not division.left_out:
        screen.out().print("left over: nothing, every request is served")
        return
    rest = ", ".join(f"{count:,} × {name}" for name, count in division.left_out.items())
    count, over = division.served[2], sum(division.left_out.values())
    do = "does" if over == 1 else "do"
    more = f"; `--devices {enough}` serves all of them" if enough else ""
    screen.out().print(
        f"left over: {rest} ({over:,} of {count_text(count + over, 'request')} {do} not fit on "
        f"{screen.count(devices, 'device')}{more})",
        style="bold", soft_wrap=True,
    )  # fmt: skip


def _print_change(change: "Relayout") -> None:
    out = screen.out()
    out.print()
    out.print(f"from now: keep {_said(change.kept)}; drain {_said(change.drained)};"
              f" make {_said(change.made)}", soft_wrap=True)  # fmt: skip
    out.print(f"about {change.seconds:g} s to destroy and create (assumed 1 s each), once the jobs"
              " in them have checkpointed and left", soft_wrap=True)  # fmt: skip


def _said(layout: "Layout") -> str:
    return ", ".join(f"{name}:{start}" for name, start in layout) or "nothing"


def axis_lines(geometry: "Geometry", layout: "Layout") -> list[str]:
    """The memory axis as two lines: the numbers of the slices, and who has them."""
    from tidemill.units.mig import geometry as axis
    from tidemill.units.mig.layouts import mask_of

    numbers = "".join(f"{i:^{SLICE_WIDTH}}" for i in range(geometry.memory))
    cells, at = "", 0
    state = mask_of(geometry, layout)
    every = [mask for of_one in axis.tables(geometry).claims for mask in of_one]
    starts = {instance.start: instance.profile for instance in layout}
    while at < geometry.memory:
        row = geometry.find(starts.get(at, ""))
        if row is not None:
            width = row.memory * SLICE_WIDTH - 2
            name = row.name if len(row.name) <= width else re.sub(r"\.\d+gb", "", row.name)
            cells += f"▐{name:█^{width}}▌"
            at += row.memory
        else:
            can = any(mask >> at & 1 and not mask & state for mask in every)
            cells += (
                f"{'free':^{SLICE_WIDTH}}" if can else f"{'░' * (SLICE_WIDTH - 2):^{SLICE_WIDTH}}"
            )
            at += 1
    return [numbers.rstrip(), cells.rstrip()]


def _document(
    geometry: "Geometry", wanted: dict[str, int], division: "Division | None",
    change: "Relayout | None",
) -> dict[str, Any]:  # fmt: skip
    import msgspec

    rows = [
        msgspec.structs.asdict(row) | {"milli": geometry.milli(row)} for row in geometry.profiles
    ]
    found: dict[str, Any] = {
        "part": geometry.key, "title": geometry.title, "memory_slices": geometry.memory,
        "compute_slices": geometry.compute, "profiles": rows,
    }  # fmt: skip
    if division is not None:
        found |= {
            "mix": wanted,
            "devices": [
                {"count": count, "layout": _placed(layout)} | _wasted(geometry, layout)
                for layout, count in division.devices
            ],
            "left_out": division.left_out,
            "left_out_requests": sum(division.left_out.values()),
            "served": dict(zip(("memory_slices", "compute_slices", "requests"), division.served,
                               strict=True)),
            "at_most_memory_slices": division.at_most,
        }  # fmt: skip
    if change is not None:
        kept, drained, made = map(_placed, (change.kept, change.drained, change.made))
        found["change"] = {
            "kept": kept, "drained": drained, "made": made, "seconds": change.seconds,
        }  # fmt: skip
    return found


def _placed(layout: "Layout") -> list[dict[str, Any]]:
    return [instance._asdict() for instance in layout]


def _wasted(geometry: "Geometry", layout: "Layout") -> dict[str, int]:
    from tidemill.units.mig import layouts

    lost = layouts.waste(geometry, layout)
    return {
        "stranded_memory_slices": lost.memory,
        "stranded_compute_slices": lost.compute,
        "free_memory_slices": lost.free_memory,
    }
