"""``tidemill prometheus``: what GPUs measured of themselves, looked at and kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import options, screen
from tidemill.model.errors import SpecError
from tidemill.model.measures import count_text

if TYPE_CHECKING:
    from tidemill.live.prometheus.client import Client
    from tidemill.live.prometheus.reading import Hour, ServerMetrics

app = typer.Typer(
    help="Activity of GPUs from Prometheus (DCGM and other exporters): look, and keep. Read-only.",
    epilog=options.example(
        "tidemill prometheus check http://prometheus:9090",
        "tidemill prometheus fetch http://prometheus:9090 --from 2026-10-01 --to 2026-11-01"
        " --out activity",
        "tidemill import slurm jobs.txt nodes.txt --prometheus activity --usd-per-hour 2.50",
    ),
    no_args_is_help=True,
)

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The address of a Prometheus (or Thanos, Mimir, VictoriaMetrics), before /api/v1."
        " A token comes from $TIDEMILL_PROMETHEUS_TOKEN or --token-file, a user and a password"
        " from $TIDEMILL_PROMETHEUS_USER and $TIDEMILL_PROMETHEUS_PASSWORD.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="A file with the token.", metavar="PATH")
]
CaFile = Annotated[
    Path | None,
    typer.Option("--ca-file", help="Certificates to trust, where https is used.", metavar="PATH"),
]
Patience = Annotated[
    str,
    typer.Option(help="How long to go on asking a server that fails.", metavar="TIME"),
]
Zone = Annotated[
    str, typer.Option("--zone", help="The time zone of dates without one.", metavar="ZONE")
]


@app.command("fields", epilog=options.example("tidemill prometheus fields --json"))
def list_fields(as_json: options.Json = False) -> None:
    """The metrics that are understood, with DCGM's field numbers and where each is documented."""
    import msgspec

    from tidemill.live.prometheus import fields
    from tidemill.live.prometheus.load_metrics import LOAD_MEANING, load_table

    if as_json:
        rows = [row._asdict() for row in fields.table()]
        loads = [row._asdict() for row in load_table()]
        screen.json_out(msgspec.json.encode({"fields": rows, "loads": loads}))
        return
    made = screen.table("metric", "says", "DCGM field", "exporter", right_from=9)
    for row in fields.table():
        made.add_row(
            row.metric, fields.MEANING[row.quantity], str(row.field) if row.field else "—",
            row.exporter,
        )  # fmt: skip
    for load in load_table():
        made.add_row(load.metric, LOAD_MEANING[load.quantity], "—", load.engine)
    screen.out().print(made)


@app.command("check", epilog=options.example("tidemill prometheus check http://prometheus:9090"))
def check(
    url: Url,
    at: Annotated[
        str | None,
        typer.Option(help="Look at the hour of this date (default: the last one).", metavar="DATE"),
    ] = None,
    zone: Zone = "UTC",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    patience: Patience = "10s",
    as_json: options.Json = False,
) -> None:
    """What a Prometheus knows of GPUs: which quantities, of how many, and whose they were."""
    import time

    import msgspec

    from tidemill.cli.imports import moment_ms
    from tidemill.live.prometheus import fetching
    from tidemill.live.prometheus.minutes import HOUR_MS
    from tidemill.live.prometheus.reading import PrometheusReader

    with _client(url, token_file, ca_file, patience) as client:
        ahead_ms = client.clock_ahead_ms()
        now_ms = round(time.time() * 1000) + ahead_ms
        told_ms = moment_ms(at, zone, "--at")
        start_ms = (now_ms - HOUR_MS if told_ms is None else told_ms) // HOUR_MS * HOUR_MS
        names = fetching.names_of(client, start_ms, start_ms + HOUR_MS)
        hour = PrometheusReader(client).hour(start_ms, names)
        say_warnings(client)
    say_skew(ahead_ms)
    found = _summary(hour, names)
    if as_json:
        screen.json_out(msgspec.json.encode(found | {"ahead_ms": ahead_ms, "start_ms": start_ms}))
        return
    _print_check(found)


FETCH_EXAMPLES = options.example(
    "tidemill prometheus fetch http://prometheus:9090 --from 2026-10-01 --to 2026-11-01"
    " --out activity",
    "TIDEMILL_PROMETHEUS_TOKEN=$(cat token) tidemill prometheus fetch https://metrics.example.com"
    " --from 2026-10-01 --out activity",
)


@app.command("fetch", epilog=FETCH_EXAMPLES)
def fetch(
    url: Url,
    out: Annotated[
        Path, typer.Option("--out", help="The folder that keeps the hours.", metavar="FOLDER")
    ],
    start: Annotated[str, typer.Option("--from", help="The first hour.", metavar="DATE")],
    end: Annotated[
        str | None, typer.Option("--to", help="Until then (default: now).", metavar="DATE")
    ] = None,
    zone: Zone = "UTC",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    patience: Patience = "2m",
    as_json: options.Json = False,
) -> None:
    """Keep the activity of GPUs in a folder, hour by hour; called again, it goes on.

    Samples are averaged to minutes of a GPU. `tidemill import` takes the folder with --prometheus,
    in place of an address.
    """
    import time

    import msgspec

    from tidemill.cli.imports import moment_ms
    from tidemill.live.prometheus import fetching
    from tidemill.live.prometheus.store import HourFolder

    start_ms = moment_ms(start, zone, "--from")
    end_ms = moment_ms(end, zone, "--to") or round(time.time() * 1000)
    assert start_ms is not None, "it is a required option"
    if start_ms >= end_ms:
        raise SpecError("--to is not after --from", hint="give --from a date before --to")
    folder = HourFolder(out)
    with (
        _client(url, token_file, ca_file, patience) as client,
        screen.progress(f"reading {client.url}") as update,
    ):
        new = fetching.fetch(client, folder, start_ms, end_ms, update)
        say_warnings(client)
    say_skew(folder.about.ahead_ms)
    counts = [folder.about.hours[str(hour)] for hour in folder.starts()]
    samples = sum(one.samples for one in counts)
    told = {
        "folder": str(out), "hours": len(counts), "new_hours": new,
        "samples": samples,
        "dropped_samples": sum(one.dropped for one in counts),
    }  # fmt: skip
    if as_json:
        screen.json_out(msgspec.json.encode(told))
        return
    screen.out().print(
        f"{out}: {screen.count(new, 'hour')} read, {screen.count(len(counts), 'hour')} kept,"
        f" {screen.count(samples, 'sample')} in all"
    )


def _client(url: str, token_file: Path | None, ca_file: Path | None, patience: str) -> "Client":
    from tidemill.live.prometheus.client import Access, Client

    patience_s = (screen.span_ms(patience, "--patience") or 0) / 1000
    access = Access.told(token_file, ca_file)
    return Client(url, access, patience_s=patience_s, on_retry=screen.note)


def say_warnings(client: "Client") -> None:
    """What the server said beside its answers."""
    for text in sorted(client.warnings)[:5]:
        screen.note(f"{client.url} warns: {text}")


MOST_SKEW_MS = 2_000


def say_skew(ahead_ms: int) -> None:
    """That two clocks differ, where they do."""
    if abs(ahead_ms) < MOST_SKEW_MS:
        return
    way = "ahead of" if ahead_ms > 0 else "behind"
    screen.note(f"the clock of Prometheus is {abs(ahead_ms) / 1000:,.0f} s {way} this machine's")


def _summary(hour: "Hour", names: "ServerMetrics") -> dict[str, object]:
    """What an hour holds, by quantity."""
    import polars as pl

    from tidemill.live.prometheus.fields import MEANING, Quantity

    gpus = hour.gpus
    device = pl.struct("node", "uuid", "minor", "mig")
    held = {"pod": pl.col("pod") != "", "batch job": pl.col("held_by") != ""}
    columns = {
        Quantity.USED: "used_bytes", Quantity.FREE: None, Quantity.RESERVED: None,
        Quantity.JOULES: None, Quantity.TOTAL: "total_bytes",
    }  # fmt: skip
    parts = {
        Quantity.TOTAL: (Quantity.USED, Quantity.FREE, Quantity.RESERVED),
        Quantity.WATTS: (Quantity.JOULES,),
    }  # fmt: skip
    rows = []
    for quantity in Quantity:
        column = columns.get(quantity, quantity.value)
        if column is None:
            continue
        seen = gpus.filter(pl.col(column).is_not_null())
        is_told, told = quantity is Quantity.XID, {row.quantity for row in names.gpus}
        made_of = (quantity,) if quantity in told or not len(seen) else parts.get(quantity, ())
        rows.append({
            "quantity": quantity.value, "says": MEANING[quantity],
            "metrics": [row.metric for row in names.gpus if row.quantity in made_of],
            "gpus": None if is_told else seen.select(device.n_unique()).item(),
            "minutes": len(seen),
        })  # fmt: skip
    return {
        "gpus": gpus.select(device.n_unique()).item(),
        "nodes": gpus["node"].n_unique(),
        "samples": hour.samples,
        "scrape_ms": gpus["gap_ms"].median(),
        "quantities": rows,
        "held": {name: gpus.filter(is_so).select(device.n_unique()).item()
                 for name, is_so in held.items()},
        "pods": len(hour.pods),
        "nodes_with_io_wait": hour.nodes["node"].n_unique(),
        "loads": [*_loads_of(hour, names)],
    }  # fmt: skip


def _loads_of(hour: "Hour", names: "ServerMetrics") -> Iterator[dict[str, object]]:
    """What an hour holds of serving engines, by quantity."""
    import polars as pl

    from tidemill.live.prometheus.load_metrics import LOAD_MEANING, LoadQuantity

    engine = pl.struct("node", "namespace", "pod", "held_by", "instance")
    for quantity in LoadQuantity:
        seen = hour.loads.filter(pl.col("what") == quantity.value)
        yield {
            "quantity": quantity.value, "says": LOAD_MEANING[quantity],
            "metrics": [row.metric for row in names.loads if row.quantity is quantity],
            "engines": seen.select(engine.n_unique()).item(),
        }  # fmt: skip


_ADVICE = {
    "sm": "add DCGM_FI_PROF_SM_ACTIVE (1002), off by default, to the counters of dcgm-exporter",
    "busy": "install dcgm-exporter",
    "tensor": "add DCGM_FI_PROF_PIPE_TENSOR_ACTIVE (1004) to the counters of dcgm-exporter",
    "dram": "add DCGM_FI_PROF_DRAM_ACTIVE (1005) to the counters of dcgm-exporter",
    "used": "add DCGM_FI_DEV_FB_USED (252) to the counters of dcgm-exporter",
    "total": "add DCGM_FI_DEV_FB_FREE (251) to the counters of dcgm-exporter",
    "watts": "add DCGM_FI_DEV_POWER_USAGE (155) to the counters of dcgm-exporter",
    "clock_mhz": "add DCGM_FI_DEV_SM_CLOCK (100) to the counters of dcgm-exporter",
    "celsius": "add DCGM_FI_DEV_GPU_TEMP (150) to the counters of dcgm-exporter",
    "xid": "add DCGM_FI_DEV_XID_ERRORS (230) to the counters of dcgm-exporter",
}


def _print_loads(rows: object) -> None:
    """What is there of serving engines, where there are any."""
    assert isinstance(rows, list), "made above"
    if not any(row["metrics"] for row in rows):
        screen.note("no metrics of serving engines (vLLM, SGLang, TGI, Triton, NIM, Ray, KServe)")
        return
    made = screen.table("quantity", "says", "from", "engines with some", right_from=3)
    for row in rows:
        made.add_row(row["quantity"], row["says"], ", ".join(row["metrics"]) or "—",
                     f"{row['engines']:,}")  # fmt: skip
    screen.out().print(made)


def _print_check(found: dict[str, object]) -> None:
    rows = found["quantities"]
    assert isinstance(rows, list), "made above"
    made = screen.table("quantity", "says", "from", "GPUs", right_from=3)
    for row in rows:
        source = ", ".join(row["metrics"]) or "—"
        gpus = "—" if row["gpus"] is None else f"{row['gpus']:,}"
        made.add_row(row["quantity"], row["says"], source, gpus)
    screen.out().print(made)
    _print_loads(found["loads"])
    held, devices, machines = found["held"], found["gpus"], found["nodes"]
    assert isinstance(held, dict), "made above"
    assert isinstance(devices, int), "a count"
    assert isinstance(machines, int), "a count"
    screen.out().print(
        f"{count_text(devices, 'GPU')} on {count_text(machines, 'node')},"
        f" {found['samples']:,} samples in the hour; held by a pod: {held['pod']:,},"
        f" by a batch job: {held['batch job']:,}",
        soft_wrap=True,
    )
    for row in rows:
        if not row["metrics"] and row["quantity"] in _ADVICE and row["gpus"] != found["gpus"]:
            screen.note(f"{row['says']} is missing: {_ADVICE[row['quantity']]}")
    if not any(held.values()):
        screen.note(
            "no label says who held a GPU: jobs are found by node and GPU number, where the history"
            " tells those, or on whole nodes"
        )
