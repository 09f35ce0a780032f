"""``tidemill stragglers`` and ``tidemill underused``: real records, and a folder of GPU-minutes."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tidemill import api
from tidemill.cli.straggler_tables import odds
from tidemill.cli.underused import advice
from tidemill.journal import open_journal
from tidemill.live.history import journalled
from tidemill.live.measured.underused import Underused, UnderusedJob, UsedDevice, with_devices
from tidemill.live.prometheus.minutes import GPU_MINUTES, HOUR_MS, MINUTE_MS
from tidemill.live.prometheus.reading import NODE_WAITS, PODS, Hour
from tidemill.live.prometheus.store import HourFolder

HISTORY = ROOT / "examples" / "history"
PLANNED = str(ROOT / "examples" / "track" / "stragglers" / "planned")
"""Real runs of eight processes."""
FIRST_HOUR_MS = 1_793_602_800_000
"""2 November 2026, 08:00 in Berlin; job 101 holds g1 and g2 for four hours from then on."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The books of the example of Slurm."""
    journal = tmp_path_factory.mktemp("fleet") / "fleet.sqlite"
    ran = tidemill(
        "import", "slurm", str(HISTORY / "sacct.txt"), str(HISTORY / "nodes.txt"), "--zone",
        "Europe/Berlin", "--to", "2026-11-02T20:00", "--usd-per-hour", "2.50", "-j", str(journal),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return journal


def kept_hours(path: Path, hours: range, minutes: int = 60) -> Path:
    """Hours of g1, g2 and g3: g2's GPU 5 lowers its clock after the first, g3 is hardly used.

    ``minutes``: of each that are known.
    """
    folder = HourFolder(path)
    folder.begin("http://prometheus", 0)
    for hour in hours:
        start_ms = FIRST_HOUR_MS + hour * HOUR_MS
        rows = [
            {
                "node": node, "uuid": f"GPU-{node}-{gpu}", "minor": gpu, "mig": "", "model": "H100",
                "namespace": "", "pod": "", "container": "", "held_by": "",
                "at_ms": start_ms + minute * MINUTE_MS, "samples": 2, "gap_ms": 30_000,
                "busy": 0.95, "busy_field": 1001, "sm": 0.1 if node == "g3" else 0.8,
                "dram": 0.2, "used_bytes": 16e9 if node == "g3" else 60e9, "total_bytes": 80e9,
                "watts": 500.0, "celsius": 88.0 if (node, gpu) == ("g2", 5) else 60.0,
                "clock_mhz": 1400.0 if (node, gpu) == ("g2", 5) and hour else 1980.0,
            }
            for node in ("g1", "g2", "g3")
            for gpu in range(8)
            for minute in range(minutes)
        ]  # fmt: skip
        gpus = pl.DataFrame(rows, schema=GPU_MINUTES)
        nothing = (pl.DataFrame(schema=PODS), pl.DataFrame(schema=NODE_WAITS))
        folder.keep(Hour(start_ms, gpus, *nothing, len(rows), 0, 0), is_whole=True)
    return folder.path


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first three hours."""
    return kept_hours(tmp_path_factory.mktemp("activity"), range(3))


@pytest.mark.parametrize(
    ("log10", "words"),
    [
        (-1.3, "1 in 10 "),
        (-5.4, "1 in 200,000 "),
        (-5.0, "1 in 80,000 "),
        (-40.0, "1 in 1,000,000 "),
    ],
)
def test_odds_are_no_more_exact_than_they_are_known(log10: float, words: str):
    """A digit, rounded down from what the tenth of a logarithm leaves open; a million at most."""
    assert odds(log10) == f"fewer than {words}by chance"


def test_odds_that_say_nothing_are_not_said():
    """One in one: by chance alone."""
    assert odds(0.0) == odds(-0.3) == "by chance alone"


def test_suspects_of_real_runs_with_what_waiting_cost():
    """A line per suspect with its numbers, and dollars that add up to the first line's."""
    ran = tidemill("stragglers", "--track", PLANNED, "--usd-per-hour", "36")
    assert ran.code == 0, ran.err
    first, _, *rows = ran.out.splitlines()
    assert first.startswith("7 suspects in 6 jobs; the other ranks waited ")
    cells = [re.split(r"\s{2,}", row.strip()) for row in rows[:7]]
    hours = [float(row[-2].removeprefix("≤ ")) for row in cells]
    (total,) = re.findall(r"waited (?:at most )?([\d.,]+) GPU-hours", first)
    assert sum(hours) == pytest.approx(float(total), abs=1e-9), "as printed"
    assert ("at most" in first) is any(row[-2].startswith("≤") for row in cells)
    assert "120 ranks of 15 runs could be judged" in first
    dollars = [float(row.split()[-1].strip("$")) for row in rows[:7]]
    assert sum(dollars) == pytest.approx(float(first.split("($")[1].split(")")[0]), abs=1e-9)
    assert rows[0].split()[:8] == ["data-late", "4", "vm", "66", "%", "waiting", "for", "data"]
    assert any(row.split()[:5] == ["compete-half", "3", "vm", "73", "%"] for row in rows)
    assert not any("clean" in row for row in rows)


def test_the_journal_says_the_price(tmp_path: Path):
    """The books of the same loops at $3.60 a GPU-hour: a micro-dollar per GPU-millisecond."""
    journal = str(tmp_path / "loops.sqlite")
    ran = tidemill(
        "import", "track", PLANNED, "--gpu-type", "H200", "--usd-per-hour", "3.60", "-j", journal
    )
    assert ran.code == 0, ran.err
    found = json.loads(tidemill("stragglers", journal, "--track", PLANNED, "--json").out)["ranks"]
    assert len(found["suspects"]) == 7
    for one in found["suspects"]:
        assert one["usd_micro"] == pytest.approx(one["waited_gpu_ms"], abs=2)


def test_json_says_what_was_not_judged():
    """One job by its name; everything that the table is made of, and the rule."""
    ran = tidemill("stragglers", "--track", PLANNED, "--job", "data-late", "--json")
    found = json.loads(ran.out)
    (one,) = found["ranks"]["suspects"]
    assert (one["job"], one["rank"], one["part"]) == ("data-late", 4, "waiting for data")
    assert one["usd_micro"] is None
    assert found["ranks"]["judged_ranks"] == 8
    assert found["rule"]["gate_ppm"] == 100_000
    assert found["devices"] is None


def test_a_loop_without_ranks_is_not_called_clean():
    """The example of one H200 has one rank: nothing can be said, and what to do about it is."""
    path = ROOT / "examples" / "track" / "h200" / "records.jsonl"
    ran = tidemill("stragglers", "--track", str(path))
    assert ran.out.splitlines()[0] == "no run could be judged by its ranks"
    assert "one rank alone tells its steps" in ran.err
    assert "call tidemill.track in every rank" in ran.err


def test_what_cannot_be_answered_is_refused(fleet: Path):
    """A journal alone, devices without a journal, a job that nobody knows."""
    for words, said in (
        ([str(fleet)], "neither step times (--track) nor device figures"),
        (["--prometheus", "x"], "no journal says which job held them"),
        (["--track", PLANNED, "--job", "other"], "none has that name"),
    ):
        ran = tidemill("stragglers", *words)
        assert ran.code == 2
        assert said in " ".join(ran.err.split())
    ran = tidemill("underused", str(fleet))
    assert ran.code == 2
    assert "--prometheus is not given" in ran.err


def test_a_gpu_below_its_peers(fleet: Path, minutes: Path):
    """Of sixteen GPUs of one job, the one that lowered its clock, with its temperature."""
    ran = tidemill("stragglers", str(fleet), "--prometheus", str(minutes))
    assert ran.code == 0, ran.err
    first, _, row = ran.out.splitlines()
    assert first == "1 GPU below its peers by clock; clocks of several GPUs are known of 2 jobs"
    assert row.split()[:5] == ["101", "g2", "5", "41", "%"]
    assert "1,400 (1,980) MHz" in row
    assert "88 (60) °C" in row


def test_gpus_that_were_not_busy_for_long_are_not_judged(fleet: Path, tmp_path: Path):
    """Less than forty minutes are known: nobody says that no GPU is below its peers."""
    short = kept_hours(tmp_path, range(1, 2), minutes=30)
    ran = tidemill("stragglers", str(fleet), "--prometheus", str(short))
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == ["no job could be judged by the clocks of its GPUs"]
    said = " ".join(ran.err.split())
    assert "2 jobs not judged: the clocks of most of their GPUs are known of less than 40m" in said


def test_a_job_of_which_two_have_no_room_on_a_gpu_is_not_to_be_shared():
    """Below half of everything, and still too large for a second one beside it."""
    alone = UnderusedJob("p2", "bob", None, "H100", 1, 1, 140_000, 60_000, 490_000, None)
    assert alone.fits == 1
    assert advice(alone) == "a smaller GPU type (two of it have no room on one GPU)"


def test_shares_that_a_journal_keeps_in_steps_say_so():
    """15 % is kept as 16 %: of a job that uses no more than 17 %, at least five fit on a GPU."""
    shares = (160_000, 100_000, 100_000)
    kept = UnderusedJob("p2", "bob", None, "H100", 1, 1, *shares, None, 20_000)
    exact = kept._replace(compute_ppm=150_000, step_ppm=0)
    assert (kept.fits, exact.fits) == (5, 6)


def test_what_fits_on_a_gpu_the_busiest_one_of_a_job_says():
    """One GPU at 40 %, one at 0 %: the idle one is given back, and two of the other fit on one."""
    job = UnderusedJob("p2", "bob", None, "H100", 2, 1, 200_000, 120_000, 110_000, None)
    found = Underused((job,), (), 1, 0)
    busy = UsedDevice("p2", "g1", "a", 0, 60, 400_000, 240_000, 210_000)
    idle = UsedDevice("p2", "g1", "b", 1, 60, 0, 0, 10_000)
    (told,) = with_devices(found, [busy, idle]).jobs
    assert (told.fits, told.idle_gpus) == (2, 1)
    assert advice(told).startswith("give back 1 of its 2 GPUs, hardly used; share: 2 of it on one")
    (half,) = with_devices(found, [busy._replace(compute_ppm=500_000), idle]).jobs
    assert advice(half).endswith("; two of it have no room on its busiest GPU (50 %)")
    for unknown in ([busy], [busy, idle._replace(compute_ppm=None)], []):
        (told,) = with_devices(found, unknown).jobs
        assert (told.fits, told.idle_gpus) == (None, 0)
        assert "if the busiest leaves room" in advice(told)


def test_under_used_gpus_with_hours_and_dollars(fleet: Path, minutes: Path):
    """Job 102 holds g3 for little: its hours at $2.50, its GPUs, and what to do."""
    ran = tidemill("underused", str(fleet), "--prometheus", str(minutes), "--devices")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].endswith("in 12.0 measured GPU-hours for $29.97; 2 jobs could be judged")
    assert lines[2].split()[:7] == ["102", "bob", "8", "H100", "12.0", "$29.97", "10"]
    assert "share: 4 of it on one GPU" in ran.out
    assert sum(line.split()[0] == "g3" for line in lines[3:] if line) == 8
    found = json.loads(
        tidemill("underused", str(fleet), "--prometheus", str(minutes), "--json").out
    )
    (job,) = found["jobs"]
    held_s = 1_793_608_800 - 1_793_603_405
    assert (job["job"], job["fits"], job["gpu_ms"]) == ("102", 4, 8_000 * held_s)
    assert job["usd_micro"] == pytest.approx(job["gpu_ms"] * 2_500_000 / HOUR_MS, abs=20)
    assert len(found["devices"]) == 8


def test_what_still_runs_is_read_until_the_books_end(fleet: Path, tmp_path: Path):
    """Job 105 holds g3 from one second past 13:00 on: seven hours, also after all others ended."""
    evening = kept_hours(tmp_path, range(5, 12))
    ran = tidemill("underused", str(fleet), "--prometheus", str(evening), "--json")
    assert ran.code == 0, ran.err
    held = {job["job"]: job["gpu_ms"] for job in json.loads(ran.out)["jobs"]}
    assert held == {"105": 8 * (7 * HOUR_MS - 1000)}


def test_a_folder_of_an_earlier_version_has_no_clocks(fleet: Path, minutes: Path, tmp_path: Path):
    """Columns that are not there are not known; the rest is read as before."""
    for path in minutes.iterdir():
        target = tmp_path / path.name
        if path.name.startswith("gpus-"):
            pl.read_parquet(path).drop("clock_mhz", "celsius").write_parquet(target)
        else:
            target.write_bytes(path.read_bytes())
    ran = tidemill("stragglers", str(fleet), "--prometheus", str(tmp_path))
    assert ran.code == 0, ran.err
    assert "2 jobs not judged: nobody told the clock" in ran.err


def test_attempts_of_a_journal_are_those_of_the_ledger(fleet: Path):
    """Job by job, when and where: what `read_attempts` says, which reads it in another way."""
    with open_journal(str(fleet)) as keeper:
        found, begins = journalled.attempts_of(keeper), journalled.begins_ms(keeper)
    for job in found["job"].unique().to_list():
        rows = found.filter(pl.col("job") == job).sort("start_ms")
        held = api.read_attempts(str(fleet), job)
        told = [
            (begins + one.start_ms, None if one.end_ms is None else begins + one.end_ms,
             list(one.nodes))
            for one in held
        ]  # fmt: skip
        assert list(rows.select("start_ms", "end_ms", "nodes").iter_rows()) == told
