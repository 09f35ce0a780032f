"""Importers: what is read from recorded clusters, and how broken files are refused."""

import gzip

import pytest

from tests.twin import greedy
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, MINUTE_MS, SECOND_MS
from tidemill.model.states import JobClass, JobState
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.faults import Faults
from tidemill.twin.traces import acme, llm_requests, openb, registry
from tidemill.twin.traces import faults as fault_trace
from tidemill.twin.traces.options import Options

SMALL = {
    "elasticflow": "job_id,submission_time,duration,num_gpu\na,100,60,16\nb,90,30.5,1\n",
    "muri": "job_id,num_gpu,submit_time,iterations,iteration_time,priority\n0,4,0,1000,50,1\n",
    "philly": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,x\n\n",
    "llm-requests": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,100,0\n2023-11-16 18:17:50.9,10,5\n",
}
COLUMN = {"elasticflow": "num_gpu", "muri": "iterations", "philly": "duration"}


@pytest.fixture
def small(tmp_path):
    """Write a small trace of a format, perhaps with other text, and return its path."""

    def write(form, text=None, suffix="csv"):
        path = tmp_path / f"{form}.{suffix}"
        path.write_text(SMALL[form] if text is None else text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("form", SMALL)
def test_a_format_is_known_by_its_header(small, form):
    """The header tells the format, and what is read can be run to its end."""
    path = small(form)
    assert registry.sniff(path) == form
    trace = registry.load(path)
    world, _ = greedy.run(Twin.from_trace(trace))
    assert world.job_count == len(trace.arrivals)
    assert set(world.jobs.state[: world.job_count].tolist()) == {JobState.DONE}


def test_times_are_read_in_the_units_of_the_file(small):
    """Seconds in ElasticFlow and Philly, milliseconds in Muri; the first arrival is at 0."""
    first, second = registry.load(small("elasticflow")).arrivals
    assert (first.job.name, first.at_ms, first.work_ms) == ("b", 0, 30_500)
    assert (second.job.name, second.at_ms, second.work_ms) == ("a", 10 * SECOND_MS, 60 * SECOND_MS)
    assert second.job.shape.roles[0].count == 2
    (muri,) = registry.load(small("muri")).arrivals
    assert (muri.work_ms, muri.job.shape.priority) == (50_000, 1)
    longer = registry.load(small("muri"), options=Options(work_ppm=1_015_000))
    assert longer.arrivals[0].work_ms == 50_750


def test_requests_become_the_load_of_a_service_by_the_minute(small):
    """The busiest minute is full, an empty one idle; a generated token weighs eight."""
    tide, _, _ = llm_requests.tide_of(small("llm-requests"))
    assert tide.step_ms == MINUTE_MS
    assert tide.levels_ppm == (1_000_000, 0, 500_000)


@pytest.mark.parametrize("form", COLUMN)
@pytest.mark.parametrize("cell", ["x", "-5", "nan", "inf", "1e400", ""])
def test_a_broken_cell_is_refused_by_line_and_column(small, form, cell):
    """File, line, column, what was asked and what was found; or skipped and counted."""
    header, row = SMALL[form].splitlines()[:2]
    at = header.split(",").index(COLUMN[form])
    cells = row.split(",")
    cells[at] = cell
    broken = ",".join(cells).replace("a,", "c,", 1)
    path = small(form, f"{header}\n{row}\n{broken}\n")
    with pytest.raises(SpecError, match=f"line 3, column `{COLUMN[form]}`: expected"):
        registry.load(path)
    trace = registry.load(path, options=Options(skip_broken=True))
    assert (len(trace.arrivals), trace.skipped) == (1, 1)
    assert "line 3" in trace.broken[0]


BROKEN = {
    "no rows": (SMALL["elasticflow"].splitlines()[0] + "\n", "holds no jobs"),
    "no text": ("", "no known header; found nothing"),
    "another header": ("a,b,c\n1,2,3\n", "no known header; found a, b, c"),
    "half a gpu": (
        SMALL["elasticflow"].replace(",16", ",1.5"),
        'column `num_gpu`: expected a whole number; found "1.5"',
    ),
    "no gpu": (SMALL["elasticflow"].replace(",16", ",0"), "expected a number from 1"),
    "one name twice": (
        SMALL["elasticflow"].replace("b,", "a,"),
        "line 3, column `job_id`: expected a name of its own \\(line 2 has it\\)",
    ),
    "a short row": ("job_id,submission_time,duration,num_gpu\na,1\n", "line 2, column `num_gpu`"),
    "a long line": (SMALL["elasticflow"] + "x" * 200_000, "line 4 is longer than 100,000"),
    "a large number": (
        SMALL["elasticflow"].replace("60", "9000000000000000"),
        "needs 260,416,666,667 nodes of 8",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused(small, case):
    """Whatever is wrong with a file, the error says where, and has a hint."""
    text, said = BROKEN[case]
    with pytest.raises(SpecError, match=said) as caught:
        registry.load(small("elasticflow", text))
    assert caught.value.hint


def test_a_missing_column_is_named(small):
    """A file that is said to be of a format must have its columns."""
    path = small("elasticflow", "job_id,submission_time,duration,gpus\n")
    with pytest.raises(SpecError, match="has no column `num_gpu`"):
        registry.load(path, "elasticflow")


def test_too_many_rows_are_refused(small):
    """The number of rows is bounded."""
    with pytest.raises(SpecError, match="more than 1 rows"):
        registry.load(small("elasticflow"), options=Options(rows_at_most=1))


def test_damaged_archives_and_bytes_are_refused(tmp_path):
    """Half an archive, no archive and no text are all spec errors."""
    whole = gzip.compress(SMALL["philly"].encode() * 50)
    for name, data in (
        ("half.csv.gz", whole[: len(whole) // 2]),
        ("none.csv.gz", b"plain"),
        ("bytes.csv", b"\xff\xfe\x00\x01"),
        ("zeros.csv", b"job_id,\x00"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(SpecError):
            registry.load(tmp_path / name)


def test_unknown_formats_and_files_list_what_is_known(tmp_path):
    """A format or a file that is not there is answered with those that are."""
    with pytest.raises(SpecError, match="there is no trace format `nonsense`") as refused:
        registry.named("nonsense")
    assert [str(refused.value).count(name) for name in registry.FORMATS] == [1] * 8
    with pytest.raises(SpecError) as near:
        registry.named("filly")
    assert near.value.hint == "did you mean `philly`?"
    with pytest.raises(SpecError, match="there is no file"):
        registry.load("no/such/file.csv")
    with pytest.raises(SpecError, match="is a folder"):
        registry.load(tmp_path)


def test_traces_are_found_through_the_environment(small, monkeypatch):
    """A path that is not here is looked for under $TIDEMILL_TRACES."""
    path = small("muri")
    monkeypatch.setenv("TIDEMILL_TRACES", str(path.parent))
    assert registry.find("muri.csv") == path


def test_faults_pair_starts_with_ends(tmp_path):
    """Days become milliseconds; nodes are numbered as they appear; a lone end is refused."""
    entry = '{{"node_id": "{}", "event_time": {}, "event_type": "fault_{}"}}'
    path = tmp_path / "faults.json"
    rows = [("x", 1, "start"), ("y", 1.5, "start"), ("x", 2, "end"), ("y", 1.75, "end")]
    path.write_text("[" + ",".join(entry.format(*row) for row in rows) + "]")
    schedule, _ = fault_trace.schedule_of(path)
    assert [(f.at_ms, f.node, f.repair_ms) for f in schedule] == [
        (DAY_MS, 0, DAY_MS),
        (DAY_MS * 3 // 2, 1, DAY_MS // 4),
    ]
    with pytest.raises(SpecError, match="no fleet and no jobs"):
        Twin.from_trace(registry.load(path))
    path.write_text("[" + entry.format("x", 2, "end") + "]")
    with pytest.raises(SpecError, match="entry 1, `event_type`: expected an end after its start"):
        registry.load(path)


@pytest.mark.parametrize(
    "text", ["", "{", "3", '[{"event_type": 3}]', '[{"event_type": "x", "a": [' + "[" * 5000]
)
def test_broken_fault_files_are_refused(tmp_path, text):
    """JSON that is none, or not of faults, is a spec error."""
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(SpecError):
        registry.load(path, "faults")


@pytest.mark.parametrize(
    ("rows", "told", "says"),
    [
        # 16 GPUs for a tenth of a day: the largest job decides, and 10 % is filled.
        ("a,0,8640,16\n", Options(), "16 accelerators, as the largest job needs; the jobs fill 10"),
        ("a,0,8640,1\n", Options(), "8 accelerators, one node; the jobs fill 1"),
        # 10 jobs of 8 GPUs, each for a whole day: 100 accelerators would be filled to 80 %.
        ("".join(f"{i},0,86400,8\n" for i in range(10)), Options(),
         "104 accelerators; the jobs fill 77"),
        ("a,0,86400,16\n", Options(accelerators=32), "32 accelerators, as asked; the jobs fill 50"),
        # Nodes are whole: what was not asked for is not called so.
        ("a,0,86400,16\n", Options(accelerators=31),
         "32 accelerators: whole nodes of 8 for the 31 asked for; the jobs fill 50"),
    ],
)  # fmt: skip
def test_a_fleet_that_the_trace_does_not_state_is_described_as_it_is(small, rows, told, says):
    """The share that is said is that of the fleet which was made, not the one that was aimed at."""
    text = "job_id,submission_time,duration,num_gpu\n" + rows
    read = registry.load(small("elasticflow", text), options=told)
    assert f"{says} % of them over 1d" in read.notes[0]


@pytest.mark.parametrize(
    ("last_s", "says"),
    [(3600, "over 1d (the least that is counted, though they arrive within less)"),
     (2 * 86400, "over 2d")],
)  # fmt: skip
def test_a_span_below_the_least_that_is_counted_says_so(small, last_s, says):
    """Two jobs an hour apart are held against a day, and the note says that this is a minimum."""
    text = f"job_id,submission_time,duration,num_gpu\na,0,8640,8\nb,{last_s},8640,8\n"
    assert registry.load(small("elasticflow", text)).notes[0].endswith(says)


# With the recorded traces ------------------------------------------------------------------------


def test_recorded_hours_are_all_there(traces):
    """Accelerator-hours as published: ElasticFlow 04 705,683, Philly 978,078."""
    itp = registry.load(traces / "elasticflow" / "cluster04.csv")
    assert len(itp.arrivals) == 15_802
    assert itp.accelerator_hours() == pytest.approx(705_683, abs=1)
    philly = registry.load(traces / "philly" / "philly.csv.gz", options=Options(accelerators=512))
    assert (len(philly.arrivals), len(philly.queues)) == (82_247, 15)
    assert philly.accelerator_hours() == pytest.approx(978_078, abs=1)
    assert philly.contracts[0].count == 512


def test_openb_has_its_nodes_and_pods(traces):
    """1,213 nodes with 6,212 accelerators of 7 models, and 8,152 pods, fractions among them."""
    trace = registry.load(traces / "openb")
    assert sum(row.count for row in trace.contracts) == 6_212
    assert len({row.kind for row in trace.contracts}) == 7
    assert len(openb.node_lines(traces / "openb" / openb.NODE_LIST)) == 1_213
    assert len(trace.arrivals) == 8_152
    assert any(0 < a.job.shape.total_milli < 1000 for a in trace.arrivals)
    assert any(a.job.shape.total_milli == 0 for a in trace.arrivals)
    untimed = registry.load(traces / "openb" / "openb_pod_list_multigpu30.csv")
    assert "have no times" in untimed.notes[1]


def test_a_list_of_nodes_or_statistics_is_nothing_to_run(traces):
    """Files that hold no work say so and what to do instead."""
    for name, said in (
        ("openb/openb_node_list_gpu_node.csv", "a list of nodes"),
        ("acme/cluster_summary.csv", "statistics of seren, kalos, philly, helios, pai"),
        ("gavel/simulation_throughputs.json", "measured speeds"),
    ):
        with pytest.raises(SpecError, match=said):
            registry.load(traces / name)


def test_a_recorded_workload_runs_to_its_end(traces):
    """Pollux workload 6: 160 jobs on 64 GPUs all finish; run times come from measurements."""
    trace = registry.load(traces / "pollux" / "workloads" / "workload-6.csv")
    world, journal = greedy.run(Twin.from_trace(trace))
    assert world.job_count == 160
    assert sum(isinstance(e, ev.JobFinished) for e in journal) == 160
    assert trace.contracts[0].node.devices == 4


def test_recorded_faults_are_as_published(traces):
    """584 faults of 231 nodes; median repair 0.85 d and mean 5.5 d; they hit a small fleet too."""
    trace = registry.load(traces / "faults" / "fault_trace.json")
    schedule = trace.faults.schedule
    assert len(schedule) == 584
    assert len({fault.node for fault in schedule}) == 231
    days = sorted(fault.repair_ms / DAY_MS for fault in schedule)
    assert days[292] == pytest.approx(0.85, abs=0.02)
    assert sum(days) / 584 == pytest.approx(5.5, abs=0.05)
    jobs = registry.load(traces / "muri" / "trace3.csv")
    twin = Twin.from_trace(jobs, faults=Faults(schedule=schedule))
    world, journal = World(), list[ev.Event]()
    for _ in range(120):
        greedy.step(twin, world, journal)
    assert any(isinstance(e, ev.AskedRepair) for e in journal)


def test_requests_of_an_hour_are_a_load_of_59_minutes(traces):
    """The Azure hour: 59 minutes, on average about three quarters of the busiest."""
    path = traces / "llm-requests" / "AzureLLMInferenceTrace_conv.csv"
    tide, skipped, _ = llm_requests.tide_of(path)
    assert (len(tide.levels_ppm), skipped) == (59, 0)
    assert sum(tide.levels_ppm) / 59 / 1e6 == pytest.approx(0.73, abs=0.01)
    service = registry.load(path).arrivals[0]
    assert service.job.shape.kind is JobClass.INFERENCE


def test_the_summary_of_five_clusters_is_read(traces):
    """Five rows; PAI does not say how its jobs end, and that is not zero."""
    rows = {row.name: row for row in acme.summaries(traces / "acme" / "cluster_summary.csv")}
    assert list(rows) == ["Seren", "Kalos", "Philly", "Helios", "PAI"]
    assert rows["PAI"].fail_share is None
    assert rows["Philly"].median_run_s == 874
