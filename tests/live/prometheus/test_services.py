"""The load of services, from a real Prometheus onto the books, against counts by hand."""

import json
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.prometheus import services
from tests.live.prometheus.services import LENGTH_S, QUIET_S, visible
from tidemill import api
from tidemill.cli.main import app
from tidemill.ledger import efficiency
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.efficiency import HeldRow
from tidemill.ledger.statement import Statement
from tidemill.model.figures import DeviceFigure
from tidemill.model.loads import LatencyFigure

HOUR_S = 3600


def run(*words: str) -> str:
    """What a command prints, if it ends well."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, f"{done.output}\n{done.exception}"
    return done.stdout


@pytest.fixture(scope="module")
def books(prometheus: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The journal of the story, imported with the real Prometheus beside it."""
    folder = tmp_path_factory.mktemp("services")
    (folder / "cluster.json").write_text(json.dumps(services.cluster()))
    target = str(folder / "fleet.sqlite")
    run("import", "kubernetes", str(folder / "cluster.json"), "--usd-per-hour", "2",
        "--prometheus", prometheus, "-j", target)  # fmt: skip
    return target


@pytest.fixture(scope="module")
def statement(books: str) -> Statement:
    """The ledger of all of it."""
    return api.read_statement(books)


def row(statement: Statement, job: str) -> HeldRow:
    """One job of it."""
    return efficiency.of_job(statement, statement.world.job_number[job])


def test_requests_and_tokens_are_counted_as_by_hand(statement: Statement):
    """A counter that began again counts from 0; a series that is scraped twice counts once."""
    load = row(statement, "ml/chat-0").measured.load
    assert load is not None
    assert load.requests == visible()
    assert (load.tokens_in, load.tokens_out) == (100 * visible(), 50 * visible())
    assert load.seen_ms == LENGTH_S * 1000
    assert load.gpu_s == 2 * LENGTH_S
    busy = LENGTH_S - len(QUIET_S)
    assert load.waiting_milli == pytest.approx(1000 * busy / LENGTH_S, abs=5)
    assert load.running_milli == pytest.approx(3000 * busy / LENGTH_S, abs=15)


def test_quantiles_come_from_merged_buckets(statement: Statement):
    """Nine in ten within 0.25 s, 99 in a hundred within 1 s: as the histogram's bounds say."""
    load = row(statement, "ml/chat-0").measured.load
    assert load is not None
    first = load.latencies[LatencyFigure.FIRST_TOKEN]
    assert first.at_most_us(Fraction(1, 2)) == first.at_most_us(Fraction(9, 10)) == 250_000
    assert first.at_most_us(Fraction(98, 100)) == 1_000_000
    assert first.at_most_us(Fraction(1)) == 2_500_000
    assert abs(first.total - visible()) <= LENGTH_S // 300  # shares of counts were rounded


def test_a_service_is_idle_where_that_was_measured_and_nowhere_else(statement: Statement):
    """Stretches of five minutes without a request; devices that poll do not make it busy.

    A trainer's engine that stands still says nothing of its GPU, nor does a service whose requests
    nobody counts. Everything that was paid is in a bucket.
    """
    names = statement.world.job_names
    idle = {
        names[job]: amount
        for (bucket, job), amount in amounts(statement, "bucket", "job").items()
        if bucket == Bucket.IDLE
    }
    quiet_s = (
        QUIET_S.stop - QUIET_S.start - 300
    )  # what grew before it is told with its first sample
    assert idle == {
        "ml/chat-0": 2000 * quiet_s * 1000,
        "ml/chat-1": 1000 * LENGTH_S * 1000,
    }
    statement.check()
    assert sum(statement.total().milli_ms) == 16_000 * LENGTH_S * 1000


def test_what_nobody_counts_is_unknown(statement: Statement):
    """Triton counts no tokens; of a service without metrics nothing is known, and no zero told."""
    embed, silent = row(statement, "ml/embed-0"), row(statement, "ml/silent-0")
    assert embed.measured.load is not None
    assert embed.measured.load.requests == 5 * (LENGTH_S - services.EVERY_S)
    assert embed.measured.load.tokens_out is None
    assert embed.measured.load.latencies == {}
    assert silent.measured.load is None
    assert embed.occupancy.milli_ms is None, "requests do not say how busy the device was"


def test_dollars_per_million_tokens(statement: Statement):
    """Two GPUs for two hours at $2 an hour, over the tokens that were generated."""
    chat = row(statement, "ml/chat-0")
    load, tokens = chat.measured.load, 50 * visible()
    assert load is not None
    told = load.usd_micro_per_million(tokens, chat.usd_micro, chat.held_milli_ms)
    assert told == round(8_000_000 * 1_000_000 / tokens)
    assert load.requests_per_gpu_hour == Fraction(visible(), 4)
    assert load.tokens_per_gpu_hour(tokens) == Fraction(tokens, 4)


def test_efficiency_shows_services(books: str):
    """A second table with a row for each service that counts; JSON with buckets and quantiles."""
    text = run("efficiency", books)
    for word in ("per GPU-hour", f"{visible():,}", "≤ 250 ms", "≤ 1 s"):
        assert word in text, text
    found = json.loads(run("efficiency", books, "--json"))
    loads = {one["key"]: one["load"] for one in found["rows"]}
    assert loads["ml/silent-0"] is None
    assert loads["ml/chat-0"]["requests"] == visible()
    (first,) = loads["ml/chat-0"]["latencies"]
    assert first["what"] == "first_token"
    assert first["p99_at_most_us"] == 1_000_000
    assert loads["ml/chat-1"]["requests"] == 0
    by_class = json.loads(run("efficiency", books, "--by", "class", "--json"))
    (served,) = [one["load"] for one in by_class["rows"] if one["key"] == "inference"]
    assert served["requests"] == visible() + 5 * (LENGTH_S - services.EVERY_S)
    assert served["token_gpu_s"] == 3 * LENGTH_S, "of the two that count tokens"
    assert served["tokens_out_per_gpu_hour"] == pytest.approx(50 * visible() / 6)


def test_one_job_says_what_it_was_asked_for(books: str):
    """`efficiency --job` has a line of the load, and of devices where they were measured."""
    text = run("efficiency", books, "--job", "ml/chat-0")
    assert f"asked for (measured): requests {visible():,}" in text


def test_figures_of_devices_and_nodes_stand_beside_jobs(books: str, statement: Statement):
    """SM, DRAM and power of the one GPU that is measured, I/O wait of its node; others unknown."""
    chat = row(statement, "ml/chat-1").measured.figures
    assert chat == {
        DeviceFigure.SM_ACTIVE: 300_000, DeviceFigure.DRAM_ACTIVE: 100_000,
        DeviceFigure.WATTS: 240, DeviceFigure.IO_WAIT: 200_000, DeviceFigure.CPU_BUSY: 300_000,
    }  # fmt: skip
    assert row(statement, "ml/chat-0").measured.figures == {}
    text = run("efficiency", books, "--devices")
    for word in ("SM active", "30 %", "240 W", "node I/O wait", "20 %"):
        assert word in text, text
    found = json.loads(run("efficiency", books, "--json"))
    devices = {one["key"]: one["devices"] for one in found["rows"]}
    assert devices["ml/chat-1"]["sm_active_ppm"] == 300_000
    assert devices["ml/chat-1"]["tensor_active_ppm"] is None
    assert devices["ml/chat-0"] is None
    one = run("efficiency", books, "--job", "ml/chat-1")
    assert "devices (measured): SM active 30 %" in one
    assert "storage" not in one, "nobody asked it for anything"


def test_errors_of_drivers_are_evidence_on_nodes_and_jobs(books: str):
    """XIDs with their meaning: in the list of nodes, of a job's own node, of nodes that are out."""
    listed = run("fleet", books, "--nodes")
    assert "XID 79" in listed
    assert "XID 48" in listed
    (s2,) = [
        one for one in json.loads(run("fleet", books, "--nodes", "--json"))["nodes"]
        if one["node"] == "s2"
    ]  # fmt: skip
    assert [(one["xid"], one["times"], one["devices"]) for one in s2["errors"]] == [(48, 1, [5])]
    (uuid,) = s2["errors"][0]["uuids"]
    assert uuid in listed
    runs = run("why", "ml/chat-1", "-j", books)
    assert "evidence on node `s1` (ready): XID 79 (the GPU has fallen off the bus) once" in runs
    waits = run("why", "ml/late-0", "-j", books)
    assert "evidence on node `s2`" in waits
    assert "double-bit ECC error" in waits
    assert f"on GPU 5 ({uuid})" in waits
    assert "XID 79" not in waits, "s1 works"


def test_doctor_names_services_without_load(books: str):
    """One service of four tells nothing of its requests."""
    text = run("doctor", "-j", books).replace("\n", " ")
    assert "services whose requests are counted" in text
    assert "3 of 4" in " ".join(text.split())


def test_a_kept_folder_tells_the_same(prometheus: str, books: str, tmp_path: Path):
    """Hours in a folder hold what services were asked for: the same events come of them."""
    (tmp_path / "cluster.json").write_text(json.dumps(services.cluster()))
    run("prometheus", "fetch", prometheus, "--out", str(tmp_path / "kept"),
        "--from", made.moment(0), "--to", made.moment(LENGTH_S))  # fmt: skip
    run("import", "kubernetes", str(tmp_path / "cluster.json"), "--usd-per-hour", "2",
        "--prometheus", str(tmp_path / "kept"), "-j", str(tmp_path / "again.sqlite"))  # fmt: skip
    one, two = (api.events_frame(name) for name in (books, str(tmp_path / "again.sqlite")))
    assert one.equals(two)
    assert {"load_seen", "latency_seen"} <= set(one["kind"].unique())


def test_a_rolled_up_journal_keeps_the_sums(books: str, tmp_path: Path):
    """Hourly books hold what was asked for, by team and class; sums are those of the events."""
    before = efficiency.efficiencies(api.read_statement(books), "class")
    rolled = str(tmp_path / "rolled.sqlite")
    run("journal", "copy", books, rolled)
    run("journal", "roll-up", rolled, "--keep", "20m", "--anyway")
    after = efficiency.efficiencies(api.read_statement(rolled), "class")
    assert after.total.measured == before.total.measured
    assert [one.measured for one in after.rows] == [one.measured for one in before.rows]


def test_the_report_has_services_and_devices(books: str, tmp_path: Path):
    """A table of each: requests per GPU-hour, and what devices did under chat-1."""
    page = tmp_path / "report.html"
    run("report", books, "-o", str(page))
    text = page.read_text(encoding="utf-8")
    assert 'data-measured="services"' in text
    assert f">{visible():,}<" in text
    assert "≤ 250 ms" in text


def test_the_check_lists_engines(prometheus: str):
    """`prometheus check` says which metrics of engines are there, and of how many."""
    found = json.loads(run("prometheus", "check", prometheus, "--at", made.moment(0), "--json"))
    engines = {one["quantity"]: (one["metrics"], one["engines"]) for one in found["loads"]}
    assert engines["tokens_out"] == (["vllm:generation_tokens_total"], 2)
    assert "nv_inference_request_success" in engines["requests"][0]


def test_frames_of_loads_name_no_metric_twice():
    """Each name of the table stands once, with its source."""
    from tidemill.live.prometheus.load_metrics import load_table

    table = pl.DataFrame([one._asdict() for one in load_table()])
    assert table.select(pl.struct("quantity", "metric").is_unique().all()).item()
    assert (table["source"].str.len_chars() > 10).all()
