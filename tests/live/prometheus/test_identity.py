"""Which GPU it was: replaced and renumbered ones, unknown pods, MIG, by a real Prometheus."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.cli.shell import tidemill
from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.prometheus.story import BEGIN_MS, END_MS, at
from tests.rigs.prometheus import series, server
from tests.rigs.prometheus.series import Recorded, dcgm, steady
from tests.rigs.slurm.cluster import quick_folder
from tidemill import api
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.rows import ATTEMPTS
from tidemill.live.measured import underused
from tidemill.live.measured.windows import WINDOWS
from tidemill.live.observing.measuring import MeasuredSpan, PrometheusMeasuring
from tidemill.live.prometheus import fetching, instances, joining, labels
from tidemill.live.prometheus.client import Client
from tidemill.live.prometheus.joining import Activity, Whose
from tidemill.live.prometheus.reading import Hour
from tidemill.model.rows import Role, Shape

BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
XID = "DCGM_FI_DEV_XID_ERRORS"
M = 60


def busy(share: float, start: int, end: int, told: dict[str, str]) -> Recorded:
    """A GPU so busy from one minute to another."""
    return Recorded(BUSY, told, steady(share, start * M, end * M))


def swapped() -> list[Recorded]:
    """s1: GPU 1 is another one from minute 32 on; the old one fell off the bus at 29."""
    old, new = dcgm("s1", 1, UUID="GPU-old"), dcgm("s1", 1, UUID="GPU-new")
    return [
        busy(0.5, 0, 120, dcgm("s1", 0)), busy(0.1, 0, 30, old), busy(0.9, 32, 120, new),
        Recorded(XID, old, [*steady(0, 0, 29 * M), *steady(79, 29 * M, 30 * M)]),
        Recorded(XID, new, [*steady(0, 32 * M, 50 * M), *steady(31, 50 * M, 120 * M)]),
    ]  # fmt: skip


def moved() -> list[Recorded]:
    """s2: GPU 0 is gone from minute 30 on, and GPU 1 is number 0; s3: the same under a pod."""
    pod = {"namespace": "ml", "pod": "moves-0", "container": "main"}
    return [
        busy(0.2, 0, 30, dcgm("s2", 0, UUID="GPU-x")),
        busy(0.7, 0, 30, dcgm("s2", 1, UUID="GPU-y")),
        busy(0.8, 31, 120, dcgm("s2", 0, UUID="GPU-y")),
        busy(0.4, 0, 22, dcgm("s3", 1, UUID="GPU-z", **pod)),
        busy(0.4, 22, 120, dcgm("s3", 0, UUID="GPU-z", **pod)),
    ]


def unnumbered() -> list[Recorded]:
    """s4: two GPUs by UUID alone, of which one is replaced at minute 30."""
    told = [{"Hostname": "s4", "UUID": f"GPU-u{i}"} for i in range(3)]
    return [busy(0.3, 0, 120, told[0]), busy(0.5, 0, 30, told[1]), busy(0.5, 30, 120, told[2])]


def foreign() -> list[Recorded]:
    """s5: a GPU that a pod holds of which only Prometheus knows."""
    return [busy(0.6, 0, 120, dcgm("s5", 0, namespace="ops", pod="burn-in", container="main"))]


def divided() -> list[Recorded]:
    """m1: two instances under pods, and the whole GPU; m2: the whole GPU alone, under a pod;
    m3: two instances without labels, of a GPU that is whole until minute 20.
    """

    def part(node: str, number: int, **more: str) -> dict[str, str]:
        return dcgm(node, 0, GPU_I_ID=str(number), GPU_I_PROFILE="3g.40gb", **more)

    def pod(name: str) -> dict[str, str]:
        return {"namespace": "ml", "pod": name, "container": "main"}

    own = part("m1", 1, **pod("part-0"))
    return [
        busy(0.2, 0, 120, own), busy(0.6, 0, 120, part("m1", 2, **pod("part-1"))),
        busy(0.9, 0, 120, dcgm("m1", 0)), busy(0.9, 0, 120, dcgm("m1", 0, **pod("part-0"))),
        Recorded(XID, own, [*steady(0, 0, 600), *steady(13, 600, 7200)]),
        Recorded(XID, part("m1", 2, **pod("part-1")), [*steady(0, 0, 600), *steady(13, 600, 7200)]),
        busy(0.9, 0, 120, dcgm("m2", 0, **pod("blind-0"))),
        busy(0.9, 0, 120, dcgm("m3", 0)),
        busy(0.1, 20, 120, part("m3", 1)), busy(0.3, 20, 120, part("m3", 2)),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A real Prometheus with the story."""
    if reason := server.missing():
        pytest.skip(f"this test starts a real Prometheus, and cannot: {reason}")
    told = [*swapped(), *moved(), *unnumbered(), *foreign(), *divided()]
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        server.running(Path(folder), series.lines(told)) as url,
    ):
        yield url


@pytest.fixture(scope="module")
def hours(address: str) -> list[Hour]:
    """Both hours of the story."""
    with Client(address) as client:
        return [*fetching.read(client, BEGIN_MS, END_MS)]


def ran(job: str, node: str, start: int, end: int, gpus: int = 1, **more: object) -> dict:
    """An attempt from one minute to another."""
    return {"job": job, "start_ms": at(start), "end_ms": at(end), "gpus": gpus,
            "nodes": [node]} | more  # fmt: skip


def joined(
    hours: list[Hour], *rows: dict, pods: tuple[str, ...] = (), cut: bool = False
) -> Activity:
    """What devices say of these attempts; ``cut``: their jobs request MIG instances."""
    frame = pl.DataFrame(
        [*rows], schema_overrides={n: ATTEMPTS[n] for n in ATTEMPTS if n in rows[0]}
    )
    if cut:
        shape = Shape("ml", (Role("one", 1, 1, 428, profile="3g.40gb", kinds=("H100",)),))
        frame = instances.with_instances(frame.with_columns(shape=pl.lit(0, pl.Int64)), [shape])
    return joining.join(hours, Whose(frame, {("ml", pod): f"ml/{pod}" for pod in pods}))


def shares(found: Activity, job: str) -> dict[int, int | None]:
    """How busy a job's GPUs were, in percent, by the minute in which a window begins."""
    rows = found.windows.filter(pl.col("job") == job)
    return {
        (start - BEGIN_MS) // 60_000: None if ppm is None else ppm // 10_000
        for start, ppm in rows.select("start_ms", "busy_ppm").iter_rows()
    }


def test_a_replaced_gpu_is_that_of_its_time(hours: list[Hour]):
    """Each job has the activity of the GPU that was there, in the hour of the change too."""
    found = joined(hours, ran("first", "s1", 0, 30, 2), ran("second", "s1", 32, 120, 2))
    assert {*shares(found, "first").values()} == {30}
    assert {*shares(found, "second").values()} == {70}
    assert len(shares(found, "first")) == 6
    assert found.windows["gpus_seen"].unique().to_list() == [2]
    assert not any("nobody says which" in note for note in found.notes)


def test_errors_are_of_the_gpu_that_had_them(hours: list[Hour]):
    """An XID of the old GPU and one of the new, each once, with its UUID and its job."""
    found = joined(hours, ran("first", "s1", 0, 30, 2), ran("second", "s1", 32, 120, 2))
    told = found.xids.filter(pl.col("node") == "s1").rows()
    assert told == [
        (at(29), "s1", "GPU-old", 1, 79, "first"), (at(50), "s1", "GPU-new", 1, 31, "second"),
    ]  # fmt: skip


def test_an_import_names_the_gpu_of_the_last_error(address: str, tmp_path: Path):
    """By node, number and UUID; the ledger has what the GPUs of each time left idle."""
    rows = [f"{job},2,s1,{at(a) // 1000},{at(b) // 1000}"
            for job, a, b in (("first", 0, 30), ("second", 32, 120))]  # fmt: skip
    (tmp_path / "jobs.csv").write_text("\n".join(["job,gpus,node,start,end", *rows]))
    journal = str(tmp_path / "j.sqlite")
    told = ("--prometheus", address, "-j", journal)
    made = tidemill("import", "csv", str(tmp_path / "jobs.csv"), *told)
    assert made.code == 0, made.err
    assert "the last: XID 31 on GPU 1 of `s1` (GPU-new)" in " ".join(made.err.split())
    nodes = json.loads(tidemill("fleet", journal, "--nodes", "--json").out)["nodes"]
    errors = [(one["xid"], one["devices"], one["uuids"]) for one in nodes[0]["errors"]]
    assert errors == [(31, [1], ["GPU-new"]), (79, [1], ["GPU-old"])]
    said = " ".join(tidemill("doctor", "-j", journal).out.split())
    assert "1 on s1 on GPU 1 (GPU-old)" in said
    statement = api.read_statement(journal)
    names = statement.world.job_names
    idle = {
        names[job]: amount
        for (bucket, job), amount in amounts(statement, "bucket", "job").items()
        if bucket == Bucket.IDLE
    }
    minutes = {"first": 2 * 30 * 0.7, "second": 2 * 88 * 0.3}
    assert idle == {job: pytest.approx(n * 60_000_000, rel=1e-5) for job, n in minutes.items()}


def test_a_job_that_outlives_a_gpu_counts_one_place_once(hours: list[Hour]):
    """Two GPUs held through the change: never three, and two minutes of one are not known."""
    found = joined(hours, ran("through", "s1", 0, 120, 2))
    assert found.windows["gpus_seen"].max() == 2
    at_change = found.windows.filter(pl.col("start_ms") == at(30))
    assert at_change["seen_ppm"].to_list() == [800_000]
    assert at_change["unseen_ppm"].to_list() == [200_000]
    assert {*shares(found, "through").values()} == {30, 70}, (
        "the new one as it was when it was seen"
    )


def test_numbers_that_moved_lead_to_the_gpu_of_that_minute(hours: list[Hour]):
    """GPU 0 by the scheduler's number is another card after the restart."""
    rows = [ran("one", "s2", 0, 30, devices=[1]), ran("two", "s2", 31, 120, devices=[1])]
    found = joined(hours, *rows)
    assert {*shares(found, "one").values()} == {20}
    assert {*shares(found, "two").values()} == {80}
    through = joined(hours, ran("ml/moves-0", "s3", 0, 120), pods=("moves-0",))
    assert {*shares(through, "ml/moves-0").values()} == {40}
    assert through.windows["gpus_seen"].unique().to_list() == [1]
    assert through.windows["seen_ppm"].unique().to_list() == [1_000_000]


def test_gpus_without_numbers_are_known_on_whole_nodes(hours: list[Hour]):
    """By UUID alone: three UUIDs in an hour are two GPUs if only two were there at once."""
    found = joined(hours, ran("all", "s4", 0, 120, 2))
    assert {*shares(found, "all").values()} == {40}
    assert found.windows["gpus_seen"].unique().to_list() == [2]


def test_a_gpu_of_an_unknown_pod_is_that_pods(hours: list[Hour]):
    """A history of pods does not give it to who held the node, and names the pod."""
    hours = [hour._replace(gpus=hour.gpus.filter(pl.col("node") == "s5")) for hour in hours]
    found = joined(hours, ran("ml/job", "s5", 0, 120), pods=("job",))
    assert not shares(found, "ml/job")
    said = "120 GPU-minutes are of pods that this history does not have (ops/burn-in): not used"
    assert said in found.notes
    batch = joined(hours, ran("4711", "s5", 0, 120))
    assert {*shares(batch, "4711").values()} == {60}, "pods may be the nodes of a batch system"


def test_an_instance_has_its_own_activity(hours: list[Hour]):
    """Not that of the whole GPU, under whatever label; an error of the GPU counts once."""
    rows = [ran("ml/part-0", "m1", 0, 120), ran("ml/part-1", "m1", 0, 120)]
    for cut in (True, False):
        found = joined(hours, *rows, pods=("part-0", "part-1"), cut=cut)
        assert {*shares(found, "ml/part-0").values()} == {20}
        assert {*shares(found, "ml/part-1").values()} == {60}
        assert any("whole GPUs that are partitioned by MIG" in note for note in found.notes)
        xids = found.xids.filter(pl.col("node") == "m1")
        assert xids.rows() == [(at(10), "m1", "GPU-m1-0", 0, 13, None)], "whose it was: unknown"
        assert len(found.errors().filter(pl.col("node") == "m1")) == 1


def test_pods_on_instances_on_the_books(address: str, tmp_path: Path):
    """Of each pod's share of the GPU, what its own instance left idle; where nobody knows, none."""
    begin = (BEGIN_MS - made.BEGIN_MS) // 1000
    cut = {"nvidia.com/gpu": None, "nvidia.com/mig-3g.40gb": "2"}
    nodes = [made.node(name, at=begin + 7200, amounts=cut) for name in ("m1", "m2")]
    asked = {"nvidia.com/mig-3g.40gb": 1}
    pods = [
        made.pod(name, asked, on=node, created=begin, end=begin + 7200)
        for name, node in (("part-0", "m1"), ("part-1", "m1"), ("blind-0", "m2"))
    ]
    (tmp_path / "all.json").write_text(json.dumps(made.listed(*nodes, *pods)))
    journal = str(tmp_path / "j.sqlite")
    told = ("--prometheus", address, "-j", journal)
    done = tidemill("import", "kubernetes", str(tmp_path / "all.json"), *told)
    assert done.code == 0, done.err
    assert "whole GPUs that are partitioned by MIG" in " ".join(done.err.split())
    statement = api.read_statement(journal)
    names, found = statement.world.job_names, dict[str, dict[Bucket, int]]()
    for (bucket, job), amount in amounts(statement, "bucket", "job").items():
        if job >= 0:
            found.setdefault(names[job], {})[Bucket(bucket)] = amount
    for name, idle in (("ml/part-0", 0.8), ("ml/part-1", 0.4)):
        share = found[name][Bucket.IDLE] / sum(found[name].values())
        assert share == pytest.approx(idle, abs=1e-4)
    assert Bucket.IDLE not in found["ml/blind-0"]


def test_an_instance_is_no_under_used_whole_gpu():
    """A job that holds a part of a GPU is not judged as one that holds a whole one."""
    window = {"job": "a", "start_ms": at(0), "end_ms": at(60), "busy_ppm": 100_000,
              "dram_ppm": 100_000, "memory_ppm": 100_000}  # fmt: skip
    windows = pl.DataFrame([window], schema=WINDOWS)
    for gpu_type, jobs in (("H100", ["a"]), ("h100_1g.10gb", [])):
        rows = pl.DataFrame([ran("a", "n", 0, 60, gpu_type=gpu_type)])
        found = underused.find(windows, instances.with_instances(rows), {})
        assert [job.job for job in found.jobs] == jobs


def test_a_whole_gpu_says_nothing_of_one_instance(hours: list[Hour]):
    """Where the exporter tells of whole GPUs only, what an instance did is unknown, and said."""
    found = joined(hours, ran("ml/blind-0", "m2", 0, 120), pods=("blind-0",), cut=True)
    assert not shares(found, "ml/blind-0")
    assert any("whole GPUs that are partitioned by MIG" in note for note in found.notes)
    by_place = joined(hours, ran("7", "m2", 0, 120, gpu_type="a100_3g.20gb"))
    assert not shares(by_place, "7")


def test_instances_without_labels_are_known_only_all_together(hours: list[Hour]):
    """One of two: unknown, and said; both: their mean; before the GPU was divided, the GPU's."""
    before, one = ran("whole", "m3", 0, 20), ran("one", "m3", 20, 120, gpu_type="3g.40gb")
    found = joined(hours, before | {"gpu_type": "H100"}, one)
    assert {*shares(found, "whole").values()} == {90}
    assert not shares(found, "one")
    assert any("nobody says which instance" in note for note in found.notes)
    both = joined(hours, ran("both", "m3", 20, 120, 2, gpu_type="3g.40gb"))
    assert {*shares(both, "both").values()} == {20}
    assert both.windows["gpus_seen"].unique().to_list() == [2]


def test_an_observer_says_once_what_it_leaves_out(address: str):
    """MIG and pods that nobody knows, at every answer in the words of the first."""
    frame = pl.DataFrame(
        [ran("ml/two", "m1", 0, 120), ran("first", "s1", 0, 30, 2)],
        schema_overrides={name: ATTEMPTS[name] for name in ("nodes",)},
    )
    frame = frame.select(pl.lit(None).cast(ATTEMPTS[name]).alias(name) if name not in frame.columns
                         else pl.col(name).cast(ATTEMPTS[name]) for name in ATTEMPTS)  # fmt: skip
    pods, told = {("ml", "part-0"): "ml/two"}, PrometheusMeasuring(address)
    said = list[tuple[str, ...]]()
    for minutes in (20, 60):
        span = MeasuredSpan(at(0), at(minutes), at(0), at(minutes))
        said.append(told.measure(span, Whose(frame, pods)).remarks)
    assert any("partitioned by MIG" in text for text in said[0])
    assert any("pods that this history does not have" in text for text in said[0])
    assert {*said[0]} <= {*said[1]}


def test_uuids_of_instances():
    """Those of newer drivers name the instance, those of older ones its GPU too."""
    new = labels.key_of({"uuid": "MIG-1b2c", "minor_number": "3", "instance": "n:9"})
    old = labels.key_of({"uuid": "MIG-GPU-77/9/0", "minor_number": "3", "instance": "n:9"})
    assert (new.uuid, new.minor, new.mig) == ("MIG-1b2c", 3, "MIG-1b2c")
    assert (old.uuid, old.minor, old.mig) == ("GPU-77", 3, "9")
