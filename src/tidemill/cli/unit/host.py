"""``tidemill unit host``: which input-pipeline stage from storage to GPU is the slowest."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli import options, screen
from tidemill.cli.bars import bar
from tidemill.cli.unit import catalogue

if TYPE_CHECKING:
    from tidemill.units.catalogue.book import Catalogue
    from tidemill.units.catalogue.rows import Box
    from tidemill.units.host import HostSupply, Intake, Station, Storage

EXAMPLES = options.example(
    "tidemill unit host p5.48xlarge",
    "tidemill unit host dgx-h100 --per-device 2800 --per-core 350 --storage-gb-s 2",
    "tidemill unit host p5.48xlarge --state-gb 1120 --writer-gb-s 5 --weights-gb 26 --json",
)


def host(
    box: Annotated[
        str, typer.Argument(help="An instance or server type of the catalogue.", metavar="SERVER")
    ],
    storage: Annotated[
        str, typer.Option("--storage", help="Samples come from: network, nvme or cache.")
    ] = "network",
    storage_gb_s: Annotated[
        float | None,
        typer.Option("--storage-gb-s", min=1e-6, max=1e6, help="What the store gives this server."),
    ] = None,
    cached: Annotated[
        float, typer.Option("--cached", min=0, max=0.999999, help="Share of reads from memory.")
    ] = 0.0,
    per_device: Annotated[
        float | None,
        typer.Option("--per-device", min=1e-6, max=1e12, help="Samples a device takes a second."),
    ] = None,
    per_core: Annotated[
        float, typer.Option("--per-core", min=1e-6, max=1e12, help="Samples a core decodes.")
    ] = 350,
    stored_bytes: Annotated[
        float, typer.Option("--stored-bytes", min=1, max=1e12, help="One sample in storage.")
    ] = 108_000,
    device_bytes: Annotated[
        float, typer.Option("--device-bytes", min=1, max=1e12, help="One sample, decoded.")
    ] = 224 * 224 * 3,
    state_gb: Annotated[
        float | None, typer.Option("--state-gb", min=1e-6, max=1e9, help="Checkpoint of so much.")
    ] = None,
    writer_gb_s: Annotated[
        float | None,
        typer.Option(
            "--writer-gb-s", min=1e-6, max=1e6, help="What the store takes from a writer."
        ),
    ] = None,
    interval_s: Annotated[
        float, typer.Option("--interval-s", min=1, max=1e9, help="Seconds between checkpoints.")
    ] = 1800,
    weights_gb: Annotated[
        float | None, typer.Option("--weights-gb", min=1e-6, max=1e9, help="Cold start of so much.")
    ] = None,
    file: catalogue.File = None,
    as_json: options.Json = False,
) -> None:
    """Input pipeline from storage to GPU (images unless said otherwise): which stage is slowest."""
    import msgspec

    from tidemill.units import host as hosts

    book = catalogue.catalogue(file)
    row = book.box(box)
    given = hosts.supply(book, row, storage_gb_s)
    intake = hosts.Intake(
        stored_bytes=stored_bytes, device_bytes=device_bytes, per_core_s=per_core,
        per_device_s=per_device or hosts.images(book.part_of(row)).per_device_s,
    )  # fmt: skip
    found = hosts.stations(given, intake, _storage(storage), cached)
    whole = storage_gb_s or row.nic_gb_s
    writer = writer_gb_s or (None if whole is None else whole / row.count)
    saved = _saved(book, row, state_gb, writer, interval_s)
    loaded = _loaded(book, row, weights_gb, storage_gb_s)
    if as_json:
        ratio = hosts.core_ratio(given, intake)
        screen.json_out(msgspec.json.encode({
            "box": row.key, "stations": [station._asdict() for station in found],
            "binds": hosts.binding(found).name, "fed_ppm": hosts.fed_ppm(found),
            "cores_per_device": ratio._asdict(), "checkpoint": saved, "cold_start_s": loaded,
        }))  # fmt: skip
        return
    _stations(found)
    _verdict(given, intake, found)
    _more(saved, loaded)


def _storage(word: str) -> "Storage":
    from tidemill.model.errors import SpecError
    from tidemill.units.host import Storage

    known = [storage.value for storage in Storage]
    if word not in known:
        raise SpecError(
            f"--storage is `{word[:40]}`, which is no storage", hint=f"known: {', '.join(known)}"
        )
    return Storage(word)


def _stations(found: "tuple[Station, ...]") -> None:
    made = screen.table("pipeline stage", "samples/s", "GB/s", "")
    made.columns[3].justify = "left"
    known = [one.samples_per_s for one in found if one.samples_per_s is not None]
    most = found[-1].samples_per_s or max(known)
    for one in found:
        samples = "unknown" if one.samples_per_s is None else f"{one.samples_per_s:,.0f}"
        moved = "-" if one.bytes_per_s is None else f"{one.bytes_per_s / 1e9:,.3g}"
        made.add_row(one.name, samples, moved, bar((one.samples_per_s or 0) / most))
    screen.out().print(made)


def _verdict(given: "HostSupply", intake: "Intake", found: "tuple[Station, ...]") -> None:
    from tidemill.units import host as hosts

    fed = hosts.fed_ppm(found) / 10_000
    ratio = hosts.core_ratio(given, intake)
    has = "unknown" if ratio.has is None else f"{ratio.has:g}"
    out = screen.out()
    out.print(
        f"slowest: {hosts.binding(found).name}; the GPUs get {fed:.1f} % of what they could take"
    )
    out.print(f"CPU cores per GPU: {has}; decoding needs {ratio.needs:.3g}")
    screen.note(
        "modelled: with prefetching the slowest stage sets the pace; a sample crosses host "
        f"memory {hosts.MEMORY_PASSES} times; bars end at what the GPUs could take"
    )


def _saved(
    book: "Catalogue", box: "Box", state_gb: float | None, gb_s: float | None, interval_s: float
) -> dict[str, Any] | None:
    """One writer, a writer for each device, and copied aside first."""
    from tidemill.units import checkpoint_io

    link = book.host_link_gb_s(box)
    if state_gb is None or gb_s is None:
        return None
    found = {
        "synchronous": checkpoint_io.synchronous(state_gb, gb_s),
        "sharded": checkpoint_io.synchronous(state_gb, gb_s, writers=box.count),
    }
    if link is not None:
        copy = link * box.count
        found["asynchronous"] = checkpoint_io.asynchronous(
            state_gb, gb_s, copy, interval_s, box.count
        )
    return {
        name: one._asdict() | {"stall_ppm": checkpoint_io.stall_ppm(one, interval_s)}
        for name, one in found.items()
    }


def _loaded(
    book: "Catalogue", box: "Box", weights_gb: float | None, gb_s: float | None
) -> dict[str, float] | None:
    from tidemill.units import checkpoint_io

    link, rate = book.host_link_gb_s(box), gb_s or box.nic_gb_s
    if weights_gb is None or link is None or rate is None:
        return None
    return {
        "from_host_memory": checkpoint_io.cold_start_s(weights_gb, link),
        "from_storage": checkpoint_io.cold_start_s(weights_gb, rate, link),
    }


def _more(saved: dict[str, Any] | None, loaded: dict[str, float] | None) -> None:
    if saved is not None:
        made = screen.table("checkpoint", "stalls s", "safe after s", "of time")
        for name, one in saved.items():
            made.add_row(name, f"{one['stall_s']:,.3g}", f"{one['written_s']:,.3g}",
                         f"{one['stall_ppm'] / 10_000:.2f} %")  # fmt: skip
        screen.out().print(made)
    if loaded is not None:
        made = screen.table("cold start onto one device", "s")
        for name, seconds in loaded.items():
            made.add_row(name.replace("_", " "), f"{seconds:,.3g}")
        screen.out().print(made)
