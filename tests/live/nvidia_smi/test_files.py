"""What nvidia-smi wrote, read: on a real H200, and as other sites write it."""

import gzip
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from tests.conftest import ROOT
from tidemill.live.nvidia_smi import hours, tables
from tidemill.live.prometheus.minutes import HOUR_MS
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS

H200 = ROOT / "examples" / "track" / "h200-shared"
QUERY = "timestamp, index, uuid, utilization.gpu [%], memory.used [MiB], power.draw [W]"
DMON = "#Date Time gpu pwr sm gract smutil\n#YYYYMMDD HH:MM:SS Idx W % GPM:% GPM:%\n"
CARD = "GPU-2ea269cd-2eda-abca-fea5-10c84c13bb8e"


def minutes(*told: str | Path, zone: str = "UTC", cuts: tuple[int, ...] = ()) -> pl.DataFrame:
    """The minutes of node ``g1`` by some files."""
    files = hours.sources([str(one) for one in told], zone, ["g1"])
    return pl.concat(one.gpus for one in hours.read(files, {"g1": cuts}, 0, FOREVER_MS))


def written(path: Path, *lines: str) -> Path:
    """A file with these lines."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_both_files_of_a_card_tell_of_one_gpu():
    """``dmon`` knows no UUID: its number says which card it is, and each knows what the other does
    not.
    """
    found = minutes(H200 / "gpu.csv", H200 / "dmon.txt")
    assert found.select("uuid", "minor", "model").unique().rows() == [(CARD, 0, "NVIDIA H200")]
    assert found["busy_field"].unique().to_list() == [1001]
    for name in ("busy", "sm", "tensor", "dram", "watts", "clock_mhz", "total_bytes", "celsius"):
        assert found[name].null_count() == 0, name
    busiest = found.sort("busy").row(-1, named=True)
    assert 0.5 < busiest["busy"] <= 1.0
    assert 0.3 < busiest["sm"] < busiest["busy"], "some kernel ran; SMs were not all in use"


def test_utilization_is_not_sm_activity():
    """Without GPM nobody counted SMs, tensor pipes or the memory interface: unknown."""
    found = minutes(H200 / "gpu.csv")
    assert found["busy_field"].unique().to_list() == [203]
    assert found["busy"].null_count() == 0
    assert found.select("sm", "tensor", "dram").null_count().row(0) == (len(found),) * 3


@pytest.mark.parametrize("packed", [False, True])
def test_minutes_are_the_means_of_their_samples(tmp_path: Path, packed: bool):
    """Of whatever a machine writes: units or none, `[N/A]`, and a line that is still written."""
    text = (
        f"{QUERY}\n2026/03/01 10:00:01.100, 0, GPU-a, 40 %, 1000 MiB, [N/A]\n"
        "2026/03/01 10:00:01.200, 1, GPU-b, 0 %, 0 MiB, 70.00 W\n"
        "2026/03/01 10:00:31.100, 0, GPU-a, 60, 3000, [Not Supported]\n"
        "Unable to determine the device handle for GPU1: Unknown Error\n"
        "2026/03/01 10:01:31.100, 0, GPU-a, 100 %, 2000 MiB, 7"
    )
    path = tmp_path / "g1.csv"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = minutes(path).sort("minor")
    assert found.select("minor", "busy", "used_bytes", "watts").rows() == [
        (0, 0.5, 3000 * 2**20, None), (1, 0.0, 0.0, 70.0),
    ]  # fmt: skip
    file = tables.SmiFile(path, "UTC")
    assert len([*file.hours()]) == 1
    (note,) = file.notes()
    assert note.startswith("`g1.csv`: 1 line left out that are no sample, such as `Unable to det")


def test_dmon_as_csv_says_the_same(tmp_path: Path):
    """``--format csv`` puts commas where else blanks are."""
    lines = (H200 / "dmon.txt").read_text().splitlines()
    path = written(tmp_path / "dmon.csv", *(", ".join(line.split()) for line in lines))
    assert minutes(path).equals(minutes(H200 / "dmon.txt"))


def test_a_minute_is_cut_where_a_job_begins():
    """So jobs of less than a minute have what was sampled in their seconds."""
    whole, start_ms = minutes(H200 / "gpu.csv"), 1795068944367
    cut = minutes(H200 / "gpu.csv", cuts=(start_ms,))
    assert len(cut) == len(whole) + 1
    (part,) = cut.filter(pl.col("at_ms") == start_ms).to_dicts()
    assert part["length_ms"] == 15_633
    assert part["samples"] == 16


def test_times_are_of_the_zone_that_was_told(tmp_path: Path):
    """Ten o'clock in Berlin is nine in winter."""
    row = "2026/01/15 10:00:00.000, 0, GPU-a, 1 %, 1 MiB, 1 W"
    found = minutes(written(tmp_path / "g1.csv", QUERY, row), zone="Europe/Berlin")
    assert found["at_ms"].to_list() == [1768467600000]


def test_an_hour_that_the_clock_showed_twice_is_two(tmp_path: Path):
    """In autumn times go back in the file: from there on it is the second hour."""
    began = datetime(2026, 10, 24, 23, 30, tzinfo=ZoneInfo("UTC"))
    rows = []
    for minute in range(0, 180, 10):
        clock = (began + timedelta(minutes=minute)).astimezone(ZoneInfo("Europe/Berlin"))
        rows.append(f"{clock:%Y/%m/%d %H:%M:%S}.000, 0, GPU-a, 50 %, 1 MiB, 1 W")
    found = minutes(written(tmp_path / "g1.csv", QUERY, *rows), zone="Europe/Berlin")
    first = round(began.timestamp() * 1000)
    assert found["at_ms"].to_list() == [first + 600_000 * i for i in range(18)]


def test_a_long_file_is_read_hour_by_hour(tmp_path: Path):
    """Of eight GPUs each second; every sample counts, and no hour is told twice."""
    began, path = datetime(2026, 3, 1, tzinfo=ZoneInfo("UTC")), tmp_path / "g1.csv"
    with path.open("w") as out:
        out.write(f"{QUERY}\n")
        for second in range(5 * 3600):
            at = f"{began + timedelta(seconds=second):%Y/%m/%d %H:%M:%S}.000"
            for gpu in range(8):
                out.write(f"{at}, {gpu}, GPU-0000-{gpu}, {gpu * 10} %, 1000 MiB, 300.00 W\n")
    assert path.stat().st_size > tables.BLOCK_BYTES
    (one,) = hours.sources([str(path)], "UTC", ["g1"])
    told = [*hours.read([one], {}, 0, FOREVER_MS)]
    first = round(began.timestamp() * 1000)
    assert [hour.start_ms for hour in told] == [first + HOUR_MS * i for i in range(5)]
    assert [hour.samples for hour in told] == [3600 * 8 * 3] * 5
    assert told[2].gpus["samples"].unique().to_list() == [60]
    assert told[4].gpus.group_by("minor").agg(pl.col("busy").mean()).sort("minor").rows() == [
        (gpu, pytest.approx(gpu / 10)) for gpu in range(8)
    ]


def test_samples_that_come_twice_count_once(tmp_path: Path):
    """A file that was copied onto its own end, with its header, is left as it was."""
    row = "2026/03/01 10:{:02}:00.000, 0, GPU-a, {} %, 1 MiB, 1 W"
    rows = [row.format(minute, minute) for minute in range(60)]
    found = minutes(written(tmp_path / "g1.csv", QUERY, *rows, QUERY, *rows))
    assert found["samples"].sum() == 60
    assert found["busy"].to_list() == pytest.approx([minute / 100 for minute in range(60)])


REFUSED = {
    "pmon": ("#Date Time gpu pid type sm\n", "is of `nvidia-smi pmon`, which counts by process"),
    "undated": ("# gpu pwr sm\n 0 79 0\n", "has no date and time: nobody can say when it was"),
    "untimed": ("index, utilization.gpu [%]\n0, 5 %\n", "has no column `timestamp`"),
    "nobody's": ("timestamp, power.draw [W]\n", "has neither `index` nor `uuid`"),
    "jobs": ("job,gpus,start\na,1,0\n", "begins with `job,gpus,start`"),
    "empty": ("", "begins with ``"),
    "mixed": (f"{QUERY}\n{QUERY}, name\n", "has two headers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_file_is_refused(tmp_path: Path, name: str):
    """What was found is said, and how such a file is written."""
    text, said = REFUSED[name]
    path = tmp_path / "g1.csv"
    path.write_text(text)
    with pytest.raises(SpecError) as refused:
        minutes(path)
    assert said in refused.value.message
    assert refused.value.hint


def test_a_file_is_of_the_node_that_is_told_or_named(tmp_path: Path):
    """Told with its path, by its name, or by that of its folder; never guessed among several."""
    (tmp_path / "g2").mkdir()
    for path in (tmp_path / "g1.csv", tmp_path / "g2" / "smi.csv", tmp_path / "other.csv"):
        written(path, QUERY)
    nodes = ["g1", "g2", "g3"]
    told = [str(tmp_path / "g1.csv"), str(tmp_path / "g2"), f"g3={tmp_path / 'other.csv'}"]
    assert [one.node for one in hours.sources(told, "UTC", nodes)] == nodes
    with pytest.raises(SpecError, match="nobody says of which node"):
        hours.sources([str(tmp_path / "other.csv")], "UTC", nodes)
    with pytest.raises(SpecError, match="is to be of node `g9`; the history has `g1`, `g2`, `g3`"):
        hours.sources([f"g9={tmp_path / 'other.csv'}"], "UTC", nodes)
