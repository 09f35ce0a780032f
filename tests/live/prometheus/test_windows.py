"""Windows of jobs from a real Prometheus: each join, each unit, and what is missing or wrong."""

import polars as pl
import pytest

from tests.live.prometheus.story import BEGIN_MS, END_MS, at
from tidemill.live.measured.windows import WINDOWS
from tidemill.live.prometheus import fetching, fields, joining
from tidemill.live.prometheus.client import Client
from tidemill.live.prometheus.joining import Activity, Whose
from tidemill.live.prometheus.reading import Hour
from tidemill.model.errors import SpecError

ATTEMPTS = [
    ("whole", 0, 120, 8, ["n1"], None),
    ("train-abc", 10, 60, 1, ["n2"], None),
    ("bert", 10, 60, 1, ["n2"], None),
    ("left", 0, 60, 2, ["n3"], [0b0011]),
    ("right", 2.5, 120, 2, ["n3"], [0b1100]),
    ("12_3", 0, 60, 1, ["n4"], None),
    ("gaps", 0, 120, 1, ["n5"], [1]),
    ("errors", 0, 120, 1, ["n6"], [1]),
    ("new", 0, 120, 1, ["n7"], None),
    ("smi", 0, None, 1, ["n8"], None),
]


def attempts() -> pl.DataFrame:
    """Who ran when and where, as a history tells it."""
    return pl.DataFrame(
        [
            (job, at(start), None if end is None else at(end), gpus, nodes, masks)
            for job, start, end, gpus, nodes, masks in ATTEMPTS
        ],
        schema={"job": pl.String, "start_ms": pl.Int64, "end_ms": pl.Int64, "gpus": pl.Int64,
                "nodes": pl.List(pl.String), "devices": pl.List(pl.Int64)},
        orient="row",
    )  # fmt: skip


@pytest.fixture(scope="module")
def hours(prometheus: str) -> list[Hour]:
    """Both hours, read once."""
    with Client(prometheus) as client:
        return [*fetching.read(client, BEGIN_MS, END_MS)]


@pytest.fixture(scope="module")
def activity(hours: list[Hour]) -> Activity:
    """What the devices say of the jobs."""
    return joining.join(hours, Whose(attempts(), numbers={"4711": "12_3"}))


def of(activity: Activity, job: str) -> pl.DataFrame:
    """The windows of one job."""
    return activity.windows.filter(pl.col("job") == job)


def test_a_job_on_a_whole_node_has_all_its_gpus(activity: Activity):
    """Eight GPUs averaged, every quantity in its unit; 1001 goes before 203."""
    found = of(activity, "whole")
    assert len(found) == 24
    assert found.select("start_ms").item(0, 0) == BEGIN_MS
    assert found["end_ms"].max() == END_MS
    row = found.row(5, named=True)
    told = {key: row[key] for key in ("busy_ppm", "sm_ppm", "tensor_ppm", "dram_ppm", "memory_ppm",
            "watts", "gpus_held", "gpus_seen", "samples", "seen_ppm", "busy_field")}  # fmt: skip
    assert told == {
        "busy_ppm": 835_000, "sm_ppm": 500_000, "tensor_ppm": 250_000, "dram_ppm": 125_000,
        "memory_ppm": 750_000, "watts": 504, "gpus_held": 8, "gpus_seen": 8, "samples": 80,
        "seen_ppm": 1_000_000, "busy_field": 1001,
    }  # fmt: skip
    assert row["mfu_ppm"] is None
    assert row["data_ppm"] is None


def test_waits_for_io_are_of_the_jobs_nodes(activity: Activity):
    """Two CPUs that wait 20 % and 40 % of the time: 30 %; where no node-exporter is, unknown."""
    waits = of(activity, "whole")["iowait_ppm"].drop_nulls().unique().to_list()
    assert waits == [300_000]
    assert of(activity, "left")["iowait_ppm"].null_count() == len(of(activity, "left"))


def test_pods_are_found_by_their_labels(activity: Activity):
    """Also behind `exported_pod`, and by the owner that kube-state-metrics names."""
    by_pod, by_owner = of(activity, "train-abc"), of(activity, "bert")
    assert by_pod["busy_ppm"].unique().to_list() == [400_000]
    assert by_owner["busy_ppm"].unique().to_list() == [600_000]
    assert by_pod["busy_field"].unique().to_list() == [203]
    assert len(by_pod) == len(by_owner) == 10


def test_batch_jobs_are_found_by_label_and_by_device(activity: Activity):
    """`hpc_job` names a member of an array by its own number; `device` counts as Slurm does."""
    assert of(activity, "12_3")["busy_ppm"].unique().to_list() == [300_000]
    assert of(activity, "left")["busy_ppm"].unique().to_list() == [900_000]
    assert of(activity, "right")["busy_ppm"].unique().to_list() == [100_000]


def test_a_window_ends_and_begins_with_its_job(activity: Activity):
    """A job that starts within five minutes has the rest of them; its first half minute is lost."""
    row = of(activity, "right").row(0, named=True)
    assert (row["start_ms"], row["end_ms"]) == (at(2.5), at(5))
    assert row["samples"] == 2 * 4


def test_what_was_not_sampled_is_unknown(activity: Activity):
    """20 minutes of silence, 5 of NaN and blanks: no window says zero, none repeats the last."""
    found = of(activity, "gaps")
    known = {(row["start_ms"] - BEGIN_MS) // 60_000: row["busy_ppm"]
             for row in found.iter_rows(named=True)}  # fmt: skip
    silent = [20, 25, 30, 35, 40]
    assert [minute for minute in silent if known.get(minute) is not None] == []
    assert {value for minute, value in known.items() if minute not in silent} == {400_000}
    assert len(known) >= 19


def test_a_series_that_comes_twice_counts_once(activity: Activity):
    """Two exporters of one GPU: one of them is used in each minute, and that is said."""
    rows = of(activity, "gaps").filter(pl.col("start_ms") >= at(60))
    assert rows["samples"].unique().to_list() == [10]
    assert rows["gpus_seen"].unique().to_list() == [1]
    assert any(note.startswith("60 GPU-minutes came from two series") for note in activity.notes)


def test_errors_and_resets(activity: Activity):
    """An XID at the turn of the hour is seen once, with its job; a reset counter costs a sample."""
    assert activity.xids.rows() == [(at(60), "n6", "GPU-n6-0", 0, 79, "errors")]
    assert of(activity, "errors")["watts"].unique().to_list() == [200]


def test_other_exporters_and_newer_names(activity: Activity):
    """dcgm-exporter 4.9 gives shares and bytes where older ones give percent and MiB."""
    new, smi = of(activity, "new").row(3, named=True), of(activity, "smi").row(3, named=True)
    assert (new["busy_ppm"], new["memory_ppm"]) == (700_000, 375_000)
    assert (smi["busy_ppm"], smi["memory_ppm"], smi["watts"]) == (200_000, 250_000, 90)


def test_which_counter_says_busy_is_said(activity: Activity):
    """203 and 1001 differ: the notes say how many windows rest on each."""
    assert any("(DCGM 1001)" in note for note in activity.notes)
    assert any("(DCGM 203)" in note for note in activity.notes)


def test_the_ledger_gets_what_it_asks_for(activity: Activity):
    """The frame of measured windows has the columns and types of every source."""
    frame = activity.measured()
    assert dict(frame.schema) == dict(WINDOWS.items())
    spans = frame.sort("job", "start_ms").with_columns(
        next_ms=pl.col("start_ms").shift(-1).over("job")
    )
    assert not len(spans.filter(pl.col("end_ms") > pl.col("next_ms")))


def test_one_gpu_of_many_that_nobody_names_is_unknown(hours: list[Hour]):
    """A job on two of n3's four GPUs, without their numbers: not guessed, and said."""
    blind = attempts().with_columns(devices=pl.lit(None, pl.List(pl.Int64)))
    found = joining.join(hours, Whose(blind))
    assert not len(of(found, "left"))
    assert any("nobody says which" in note for note in found.notes)


@pytest.mark.parametrize(
    ("gpus", "nodes", "busy_ppm", "unseen"),
    [(16, ["n1", "dark"], None, 8), (12, ["n1", "dim"], 835_000, 4), (8, ["n1"], 835_000, 0)],
    ids=["one of two nodes", "most of its GPUs", "all"],
)
def test_nodes_that_nobody_samples_are_not_like_the_others(
    hours: list[Hour], gpus: int, nodes: list[str], busy_ppm: int | None, unseen: int
):
    """Half of the GPUs say nothing of the other half; what most of them do is taken as the mean."""
    masks = [0xFF, (1 << gpus - 8) - 1][: len(nodes)]
    told = {"gpus": [gpus], "nodes": [nodes], "devices": [masks]}
    one = attempts().head(1).with_columns(pl.DataFrame(told))
    found = joining.join(hours, Whose(one))
    assert found.windows["busy_ppm"].unique().to_list() == [busy_ppm]
    assert found.windows["unseen_gpus"].unique().to_list() == [unseen]
    is_said = any("no more than half of its GPUs: unknown" in note for note in found.notes)
    assert is_said is (busy_ppm is None)


def test_a_gpu_that_is_not_heard_for_a_while_is_like_itself(hours: list[Hour]):
    """One of two GPUs at work, silent for three minutes of five: half of the job is, still."""
    pair = (pl.col("node") == "n1") & (pl.col("minor") < 2)
    is_silent = (pl.col("minor") == 0) & (pl.col("at_ms") >= at(2)) & (pl.col("at_ms") < at(5))
    first = hours[0]._replace(
        gpus=hours[0]
        .gpus.filter(pair & ~is_silent)
        .with_columns(busy=pl.when(pl.col("minor") == 0).then(1.0).otherwise(0.0))
    )
    one = attempts().head(1).with_columns(gpus=pl.lit(2, pl.Int64))
    found = joining.join([first], Whose(one)).windows.sort("start_ms").head(3)
    assert found["busy_ppm"].to_list() == [500_000] * 3
    assert found["unseen_gpus"].to_list() == [0] * 3
    assert found["unseen_ppm"].to_list() == [300_000, 0, 0], "three of ten GPU-minutes"


def test_a_gpu_that_does_not_tell_how_busy_it_is_is_not_measured(hours: list[Hour]):
    """One of four has a clock and no more: it is like the others, inferred, and nobody saw it."""
    four = (pl.col("node") == "n1") & (pl.col("minor") < 4)
    is_silent = pl.col("minor") == 3
    gpus = hours[0].gpus.filter(four).with_columns(busy=pl.when(~is_silent).then(0.5))
    one = attempts().head(1).with_columns(gpus=pl.lit(4, pl.Int64))
    found = joining.join([hours[0]._replace(gpus=gpus)], Whose(one)).windows.head(3)
    assert found["gpus_seen"].to_list() == [4] * 3
    assert found["busy_ppm"].to_list() == [500_000] * 3
    assert found["unseen_gpus"].to_list() == [1] * 3
    assert found["unseen_ppm"].to_list() == [250_000] * 3


def test_a_gpu_that_two_jobs_hold_belongs_to_neither(hours: list[Hour]):
    """Sharing, or a mistake: what the device did cannot be told apart, and that is said."""
    both = attempts().filter(pl.col("job").is_in(["left", "right"])).with_columns(
        devices=pl.Series([[0b0011], [0b1110]], dtype=pl.List(pl.Int64))
    )  # fmt: skip
    found = joining.join(hours, Whose(both))
    assert any("held by several jobs" in note for note in found.notes)
    assert of(found, "left")["gpus_seen"].max() == 2  # before the other began
    assert of(found, "left").filter(pl.col("start_ms") >= at(5))[
        "gpus_seen"
    ].unique().to_list() == [1]


def test_a_clock_that_is_five_minutes_ahead(hours: list[Hour]):
    """Samples are moved by what is told; windows keep to the jobs' own clock."""
    one = attempts().filter(pl.col("job") == "train-abc").with_columns(
        start_ms=pl.col("start_ms") - 300_000, end_ms=pl.col("end_ms") - 300_000
    )  # fmt: skip
    wrong, right = (joining.join(hours, Whose(one), ahead_ms=ahead) for ahead in (0, 300_000))
    assert len(wrong.windows) == 9
    assert len(right.windows) == 10
    assert (right.windows["start_ms"].min(), right.windows["end_ms"].max()) == (at(5), at(55))


def test_windows_divide_an_hour(hours: list[Hour]):
    """Other lengths are refused with those that work."""
    with pytest.raises(SpecError) as caught:
        joining.join(hours, Whose(attempts()), 7 * 60_000)
    assert caught.value.hint == "give --resolution 1m, 2m, 5m, 10m, 15m, 30m or 1h"
    quarter = joining.join(hours, Whose(attempts()), 15 * 60_000)
    assert len(of(quarter, "whole")) == 8


def test_every_name_is_in_the_table_once():
    """No metric is read as two quantities, each has a source, and a field's names agree."""
    names = [row.metric for row in fields.table()]
    assert len(names) == len({*names})
    assert all(row.source and row.exporter and row.scale > 0 for row in fields.table())
    for row in fields.table():
        if row.field:
            assert {one.quantity for one in fields.table() if one.field == row.field} == {
                row.quantity
            }


def test_a_pod_belongs_to_the_job_that_the_history_says(hours: list[Hour]):
    """A pod of a gang has another name than its job."""
    one = attempts().filter(pl.col("job") == "train-abc").with_columns(job=pl.lit("ml/train"))
    found = joining.join(hours, Whose(one, {("ml", "train-abc"): "ml/train"}))
    assert of(found, "ml/train")["busy_ppm"].unique().to_list() == [400_000]


def relabelled(hours: list[Hour], of_node: str, held_by: str, **more: str) -> list[Hour]:
    """The hours as if GPUs of a node had this label of a batch job."""
    is_it = pl.col("node") == of_node
    told = {"held_by": held_by, **more}
    return [
        hour._replace(
            gpus=hour.gpus.with_columns(
                pl.when(is_it).then(pl.lit(value)).otherwise(name).alias(name)
                for name, value in told.items()
            )
        )
        for hour in hours
    ]


@pytest.mark.parametrize("node", ["n4", "other1"], ids=["another of its nodes", "another cluster"])
def test_a_label_on_a_node_that_the_job_does_not_hold_is_not_its(hours: list[Hour], node: str):
    """Two clusters number their jobs alike, or a label is wrong: not counted, and said once."""
    told = relabelled(hours, "n4", "whole", node=node)
    found = joining.join(told, Whose(attempts()))
    for job, busy_ppm in (("whole", 835_000), ("12_3", 300_000)):
        seen = of(found, job)["busy_ppm"].unique().to_list()
        assert seen == ([busy_ppm] if job == "whole" or node == "n4" else [])
    assert of(found, "whole")["gpus_seen"].unique().to_list() == [8]
    (note,) = (note for note in found.notes if "ran on other nodes" in note)
    assert note == (
        "60 GPU-minutes have the label of a job that ran on other nodes then"
        f" (whole on {node}): not counted for it"
    )


def test_where_no_node_has_a_name_of_the_history_labels_are_believed(hours: list[Hour]):
    """Exporters that name themselves, or addresses: nothing contradicts the label."""
    some = [hour._replace(gpus=hour.gpus.filter(pl.col("node") == "n4")) for hour in hours]
    told = relabelled(some, "n4", "4711", node="dcgm-exporter-xyz12")
    found = joining.join(told, Whose(attempts(), numbers={"4711": "12_3"}))
    assert of(found, "12_3")["busy_ppm"].unique().to_list() == [300_000]
    assert of(found, "12_3")["unseen_ppm"].unique().to_list() == [0]


@pytest.mark.parametrize("label", ["9999", "left"], ids=["unknown", "over"])
def test_a_label_of_who_did_not_hold_a_gpu_is_its_holders_as_inferred(
    hours: list[Hour], label: str
):
    """Of a job that is over or that nobody knows; whoever holds the whole node did the work."""
    told = [hour._replace(gpus=hour.gpus.filter(pl.col("node") == "n1")) for hour in hours]
    told = relabelled(told, "n1", label)
    whose = Whose(attempts().filter(pl.col("job").is_in(["whole", "left"])).with_columns(
        start_ms=pl.when(pl.col("job") == "left").then(at(-60)).otherwise("start_ms"),
        end_ms=pl.when(pl.col("job") == "left").then(at(-1)).otherwise("end_ms"),
    ))  # fmt: skip
    found = joining.join(told, whose)
    assert found.windows["job"].unique().to_list() == ["whole"]
    assert found.windows["busy_ppm"].unique().to_list() == [835_000]
    assert found.windows["unseen_ppm"].unique().to_list() == [1_000_000], "inferred, all of it"
    assert any(
        note == "960 GPU-minutes have the label of a job that did not hold the GPU, by this history"
        f" ({label} on n1): counted for the job that did, inferred"
        for note in found.notes
    )
    assert "stale" in found.left_out, "observers say it too"


def test_a_label_that_says_nobody_is_none(hours: list[Hour]):
    """`0` is what some exporters say of a GPU that no job holds."""
    told = [hour._replace(gpus=hour.gpus.filter(pl.col("node") == "n1")) for hour in hours]
    found = joining.join(relabelled(told, "n1", "0"), Whose(attempts()))
    assert of(found, "whole")["unseen_ppm"].unique().to_list() == [0]
    assert "stale" not in found.left_out
