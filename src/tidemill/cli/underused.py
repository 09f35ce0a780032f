"""``tidemill underused``: jobs that hold whole GPUs for little, as the GPUs measured it."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import activity, options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS, count_text, dollars_text

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from tidemill.live.measured.underused import Underused, UnderusedJob, UsedDevice

SHOWN = 20
DEVICES_SHOWN = 40

EXAMPLES = options.example(
    "tidemill underused fleet.sqlite",
    "tidemill underused fleet.sqlite --prometheus http://prometheus:9090",
    "tidemill underused fleet.sqlite --prometheus activity --devices",
    "tidemill underused fleet.sqlite --prometheus activity --json",
)


def underused(
    journal: options.Journal = options.DEFAULT_JOURNAL,
    prometheus: activity.Source = None,
    ahead: activity.Ahead = activity.AHEAD,
    devices: Annotated[bool, typer.Option("--devices", help="One row per GPU too.")] = False,
    top: Annotated[
        int, typer.Option("--top", min=0, help="How many jobs to show (0: all).")
    ] = SHOWN,
    as_json: options.Json = False,
) -> None:
    """Jobs that hold whole GPUs and use little of them: hours, dollars, and what to do."""
    from tidemill.cli import held_by
    from tidemill.live.measured import underused as measured
    from tidemill.live.prometheus.joining import HeldGpus
    from tidemill.model.figures import STEPS, DeviceFigure

    held = held_by.read(journal)
    if prometheus is None:
        found = measured.find(
            _kept(journal), held.whose.attempts, {}, held.usd_micro_per_hour,
            STEPS[DeviceFigure.SM_ACTIVE],
        )  # fmt: skip
        if devices:
            screen.note("a journal keeps what GPUs did by job: --devices needs --prometheus")
        _tell(found, (), journal, top, as_json=as_json)
        return
    asked = activity.ActivityOptions(prometheus, ahead=ahead)
    use, holders = measured.DeviceUse(), HeldGpus(held.whose, asked.ahead_ms)
    read = activity.read(
        asked, prometheus, held.whose, (None, held.end_ms),
        lambda hour: use.take(holders.of(hour)),
    )  # fmt: skip
    for text in read.notes:
        screen.note(text)
    found = measured.find(read.measured(), held.whose.attempts, {}, held.usd_micro_per_hour)
    of_devices = use.of([job.job for job in found.jobs])
    found = measured.with_devices(found, of_devices)
    _tell(found, of_devices if devices or as_json else (), journal, top, as_json=as_json)


def _kept(journal: str) -> "pl.DataFrame":
    """What the journal itself keeps of what GPUs did; refused where that is nothing."""
    from tidemill.journal import open_journal
    from tidemill.live.history import journalled

    with open_journal(journal) as keeper:
        windows = journalled.windows_of(keeper)
    if windows["memory_ppm"].null_count() == len(windows):
        if windows["busy_ppm"].null_count() < len(windows):
            raise SpecError(
                f"`{journal}` keeps how busy GPUs were, and not how much of their memory was used:"
                " nobody can say which of them a smaller one could replace",
                hint="have the exporter give DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_FB_FREE;"
                " `tidemill efficiency` says how long GPUs were idle",
            )
        raise SpecError(
            f"nobody says what GPUs did: `{journal}` keeps nothing of it, and --prometheus is not"
            " given",
            hint="give the address of a Prometheus with dcgm-exporter's metrics, or a folder that"
            " `tidemill prometheus fetch` made, here or when you import or observe",
        )
    return windows


def _tell(
    found: "Underused",
    devices: "tuple[UsedDevice, ...]",
    journal: str,
    top: int,
    *,
    as_json: bool,
) -> None:
    if as_json:
        _print_json(found, devices, journal)
    else:
        _print(found, devices, top)


def _print(found: "Underused", devices: "tuple[UsedDevice, ...]", top: int) -> None:
    console = screen.out()
    console.print(_headline(found), soft_wrap=True)
    shown = found.jobs[: top or None]
    if shown:
        console.print(_jobs(shown))
        if len(found.users) > 1:
            console.print(_users(found))
        if devices:
            console.print(_devices(devices[:DEVICES_SHOWN]))
            if len(devices) > DEVICES_SHOWN:
                screen.note(
                    f"and {count_text(len(devices) - DEVICES_SHOWN, 'more GPU')}; --json has all"
                )
        screen.note(
            "compute (SMs active; busy where that is not measured) and bandwidth on average, memory"
            " at most, of all GPUs of a job; sharing: how many such jobs its busiest GPU has room"
            " for; measured h: GPU-hours that it held while most of its GPUs were sampled"
        )
        if shown[0].step_ppm:
            screen.note(
                f"~: a journal keeps shares in steps of {shown[0].step_ppm // 10_000} %;"
                " --prometheus reads them as they were measured"
            )
    if found.unknown:
        screen.note(
            f"{screen.count(found.unknown, 'job')} not judged: compute, memory bandwidth (DCGM"
            " 1005) or memory is not known for half of their time"
        )


def _headline(found: "Underused") -> str:
    judged = f"{screen.count(found.judged, 'job')} could be judged"
    if not found.jobs:
        return f"no job among them is below half on every axis; {judged}"
    hours = sum(job.gpu_ms for job in found.jobs) / HOUR_MS
    told = [job.usd_micro for job in found.jobs]
    cost = "" if None in told else f" for {dollars_text(sum(usd or 0 for usd in told))}"
    return (
        f"{screen.count(len(found.jobs), 'job')} used less than half of compute, memory bandwidth"
        f" and memory in {hours:,.1f} measured GPU-hours{cost}; {judged}"
    )


def _jobs(rows: "tuple[UnderusedJob, ...]") -> "Table":
    made = screen.table(
        "job", "user", "GPUs", "measured h", "dollars", "compute", "bandwidth", "memory",
        "what to do",
    )  # fmt: skip
    made.columns[1].justify = made.columns[8].justify = "left"
    made.columns[8].no_wrap = False
    for row in rows:
        made.add_row(
            row.job, row.user or "?", f"{row.gpus:,} {row.gpu_type}".strip(),
            f"{row.gpu_hours:,.1f}", dollars_text(row.usd_micro), *_rounded_axes(row), advice(row),
        )  # fmt: skip
    return made


def _rounded_axes(row: "UnderusedJob") -> tuple[str, ...]:
    return tuple("~ " * bool(row.step_ppm) + text for text in _axes(row))


def _axes(row: "UnderusedJob | UsedDevice") -> tuple[str, ...]:
    shares = (row.compute_ppm, row.bandwidth_ppm, row.memory_ppm)
    return tuple("?" if ppm is None else f"{ppm / 10_000:.0f} %" for ppm in shares)


def advice(row: "UnderusedJob") -> str:
    """What its use leaves room for."""
    whom = f"`{row.user}`" if row.user else "its owner"
    if row.is_hardly_used:
        return f"ask {whom} whether it needs a GPU; end it where it only waits"
    if not row.idle_gpus:
        return _shared(row)
    return (
        f"give back {row.idle_gpus:,} of its {count_text(row.gpus, 'GPU')}, hardly used;"
        f" {_shared(row)}"
    )


def _shared(row: "UnderusedJob") -> str:
    """What of its GPUs others can have: what its busiest one leaves."""
    if row.fits is None:
        return "share them, or a smaller GPU type, if the busiest leaves room (not each is known)"
    if row.fits > 1:
        least = "at least " * bool(row.step_ppm)
        return (
            f"share: {least}{row.fits} of it on one GPU (MIG, MPS or time-slicing), or a smaller"
            " GPU type"
        )
    if row.gpus > 1:
        return f"two of it have no room on its busiest GPU ({(row.most_ppm or 0) / 10_000:.0f} %)"
    return "a smaller GPU type (two of it have no room on one GPU)"


def _users(found: "Underused") -> "Table":
    made = screen.table("user", "jobs", "measured h", "dollars")
    for row in found.users:
        made.add_row(
            row.user or "?", f"{row.jobs:,}", f"{row.gpu_ms / HOUR_MS:,.1f}",
            dollars_text(row.usd_micro),
        )  # fmt: skip
    return made


def _devices(rows: "tuple[UsedDevice, ...]") -> "Table":
    made = screen.table("node", "GPU", "job", "sampled h", "compute", "bandwidth", "memory")
    made.columns[1].justify = made.columns[2].justify = "left"
    for row in rows:
        name = str(row.minor) if row.minor >= 0 else row.uuid
        made.add_row(row.node, name, row.job, f"{row.minutes / 60:,.1f}", *_axes(row))
    return made


def _print_json(found: "Underused", devices: "tuple[UsedDevice, ...]", journal: str) -> None:
    import msgspec

    made = found.document() | {"devices": [row._asdict() for row in devices]}
    screen.json_out(msgspec.json.format(msgspec.json.encode(made), indent=2), journal)
