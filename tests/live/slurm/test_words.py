"""Single values as Slurm prints them: times, amounts, lists of nodes, job ids, states."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.live.slurm import amounts, hostlists, identity, states, times
from tidemill.live.slurm.amounts import Gres
from tidemill.live.slurm.identity import JobIdentity
from tidemill.model.errors import SpecError

BERLIN = ZoneInfo("Europe/Berlin")


def test_times_are_told_with_their_zone():
    """Seconds since 1970 need no zone; local times do; a summer and a winter hour differ."""
    assert times.time_ms("1794846586", None) == 1794846586000
    assert times.time_ms("2026-11-16T16:29:46", UTC) == 1794846586000
    assert times.time_ms("2026-11-16T17:29:46", BERLIN) == 1794846586000
    assert times.time_ms("2026-07-16T18:29:46", BERLIN) == times.time_ms("2026-07-16T16:29:46", UTC)
    with pytest.raises(ValueError, match="without a zone"):
        times.time_ms("2026-11-16T16:29:46", None)


@pytest.mark.parametrize("word", ["Unknown", "None", "N/A", "", "0"])
def test_no_time_is_unknown(word):
    """What Slurm does not know is None, not 1970."""
    assert times.time_ms(word, UTC) is None


def test_an_hour_that_clocks_leave_out_is_refused():
    """In spring 02:30 does not exist; in autumn it exists twice, and the first is taken."""
    with pytest.raises(ValueError, match="leave that hour out"):
        times.time_ms("2026-03-29T02:30:00", BERLIN)
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert times.time_ms("2026-10-25T02:30:00", BERLIN) == first.timestamp() * 1000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("00:00:00", 0),
        ("01:02:03", 3_723_000),
        ("2-03:04:05", 183_845_000),
        ("00:00.002", 2),
        ("19:59.5", 1_199_500),
        ("1-12", 129_600_000),
        ("0:19", 19_000),
        ("", None),
        ("INVALID", None),
    ],
)
def test_durations(text, found):
    """`[D-]HH:MM:SS[.mmm]` in all its shortened forms."""
    assert times.duration_ms(text) == found


@pytest.mark.parametrize("word", ["UNLIMITED", "Partition_Limit", ""])
def test_time_limits(word):
    """A duration, or minutes; no limit, the partition's and an unknown one are none."""
    assert times.limit_ms("01:00:00") == 3_600_000
    assert times.limit_minutes_ms("90") == 5_400_000
    assert times.limit_ms(word) is None
    assert times.limit_minutes_ms(word) is None


def test_an_unknown_zone_is_told():
    """A zone that does not exist is refused with an example."""
    with pytest.raises(SpecError, match="no time zone `Mars/Base`"):
        times.zone_of("Mars/Base")


def test_lists_of_nodes_unfold():
    """Ranges, padding, several brackets in one name, plain names."""
    assert hostlists.expand("n[1-3,07-09],gpu-a[1-2]b,login") == (
        *("n1", "n2", "n3", "n07", "n08", "n09"),
        *("gpu-a1b", "gpu-a2b", "login"),
    )
    assert hostlists.expand("r[1-2]n[08-10]") == tuple(
        f"r{r}n{n}" for r in (1, 2) for n in ("08", "09", "10")
    )
    assert hostlists.expand("None assigned") == ()


def test_a_list_that_stands_for_too_many_nodes_is_refused():
    """Twelve characters may mean a billion names; they are counted, not made."""
    assert hostlists.count("n[1-999999999]") == 999_999_999
    with pytest.raises(ValueError, match="999,999,999 nodes"):
        hostlists.expand("n[1-999999999]")
    for broken in ("n[1-", "n]1[", "n[3-1]", "n[a-b]", "n1,,n2"):
        with pytest.raises(ValueError):
            hostlists.expand(broken)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.integers(1, 5)), min_size=1))
def test_unfolding_counts_what_it_makes(ranges):
    """``count`` agrees with the names, and the names with a count by hand."""
    pieces = [f"{first:0{digits}d}-{first + more}" for first, more, digits in ranges]
    names = hostlists.expand(f"n[{','.join(pieces)}]x")
    assert len(names) == hostlists.count(f"n[{','.join(pieces)}]x")
    assert [int(name[1:-1]) for name in names] == [
        first + i for first, more, _ in ranges for i in range(more + 1)
    ]


def test_tres_and_the_gpus_in_them():
    """Typed and untyped GPUs are the same GPUs; memory is in bytes."""
    text = "billing=8,cpu=8,gres/gpu:h100=2,gres/gpu=2,mem=64G,node=1"
    assert dict(amounts.tres(text) or ()) == {
        "billing": 8,
        "cpu": 8,
        "gres/gpu:h100": 2,
        "gres/gpu": 2,
        "mem": 64 << 30,
        "node": 1,
    }
    assert amounts.tres_gpus(text) == (2, "h100")
    assert amounts.tres_gpus("gres/gpu:a100=2,gres/gpu:h100=1") == (3, "a100,h100")
    assert amounts.tres_gpus("cpu=1,gres/gpu:a100_3g.20gb=2,gres/gpu=2") == (2, "a100_3g.20gb")


def test_tres_without_gpus_say_nothing_about_gpus():
    """A cluster that does not track gres/gpu prints the same for jobs with and without GPUs."""
    assert amounts.tres_gpus("cpu=16,mem=100G,node=1,billing=16") == (None, None)
    assert amounts.tres_gpus("") == (None, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:h100:8", [Gres("gpu", "h100", 8)]),
        ("gres:gpu:8", [Gres("gpu", None, 8)]),
        ("gres/gpu:h100:8", [Gres("gpu", "h100", 8)]),
        ("gpu", [Gres("gpu", None, 1)]),
        ("gpu:h100", [Gres("gpu", "h100", 1)]),
        ("gpu:h100:6(IDX:0-3,5,7)", [Gres("gpu", "h100", 6, (0, 1, 2, 3, 5, 7))]),
        ("gpu:h100:0(IDX:N/A)", [Gres("gpu", "h100", 0)]),
        ("gpu:h100:8(S:0-1)", [Gres("gpu", "h100", 8)]),
        ("gpu:a100_3g.20gb:2", [Gres("gpu", "a100_3g.20gb", 2)]),
        (
            "gpu:a100:4(IDX:0,2-4),shard:a100:64(S:0,1)",
            [Gres("gpu", "a100", 4, (0, 2, 3, 4)), Gres("shard", "a100", 64)],
        ),
    ],
)
def test_gres_with_types_and_devices(text, found):
    """Every way in which versions print GRES."""
    assert list(amounts.gres(text) or ()) == found


def test_shards_are_not_gpus():
    """A shard is a share of a GPU, and counts as none."""
    assert amounts.gres_gpus("gpu:a100:4,shard:a100:64") == (4, "a100")
    assert amounts.gres_gpus("shard:16") == (0, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [("64G", 64 << 30), ("4000Mn", 4000 << 20), ("2Gc", 2 << 30), ("1.50G", 1536 << 20),
     ("512", 512 << 20), ("", None)],
)  # fmt: skip
def test_memory(text, found):
    """Suffixes K to T, per node or per CPU, in MiB without one."""
    assert amounts.memory(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("123", JobIdentity(123)),
        ("123_4", JobIdentity(None, 123, 4)),
        ("123_[5-9%2]", JobIdentity(None, 123, None, "5-9%2")),
        ("123_[1-3,7,...]", JobIdentity(None, 123, None, "1-3,7,...")),
        ("123+1", JobIdentity(None, het_job_id=123, het_offset=1)),
    ],
)
def test_job_ids(text, found):
    """Arrays, pending ranges and het jobs."""
    assert identity.parse(text) == found


@pytest.mark.parametrize("text", ["", "x", "12x", "1_", "1_[", "9" * 30, "1 2", "1.batch"])
def test_what_is_no_job_id_is_refused(text):
    """Nothing is guessed from a text that is no job id."""
    with pytest.raises(ValueError):
        identity.parse(text)


def test_masks_of_array_tasks():
    """22.05 prints the pending tasks of an array as bits."""
    assert identity.tasks_of_mask("0x7E") == "1-6"
    assert identity.tasks_of_mask("0x15") == "0,2,4"
    assert identity.tasks_of_mask("5-9%2") == "5-9%2"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("COMPLETED", ("COMPLETED", None)),
        ("CANCELLED by 1000", ("CANCELLED", None)),
        ("CANCELLED+", ("CANCELLED", None)),
        ("RUNNING+COMPLETING", ("RUNNING", "COMPLETING")),
        ("CG", ("COMPLETING", None)),
        ("PD", ("PENDING", None)),
        ("OUT_OF_MEMORY", ("OUT_OF_MEMORY", None)),
        ("REQUEUED", ("REQUEUED", None)),
        ("SPECIAL_EXIT", ("SPECIAL_EXIT", None)),
    ],
)
def test_states_of_jobs(text, found):
    """Long and short forms, and flags; who cancelled it is not kept."""
    assert states.job(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("IDLE+DRAIN", ("IDLE", "DRAIN")),
        ("DOWN*", ("DOWN", "NOT_RESPONDING")),
        ("MIXED+PLANNED", ("MIXED", "PLANNED")),
        ("mix-", ("MIXED", "PLANNED")),
        ("drained", ("IDLE", "DRAIN")),
        ("drng", ("DRAINING", "DRAIN")),
        ("INVAL", ("INVALID_REG", "INVALID_REG")),
        ("idle~", ("IDLE", "POWERED_DOWN")),
        ("IDLE+CLOUD+POWERED_DOWN", ("IDLE", "CLOUD+POWERED_DOWN")),
        ("maint", ("MAINTENANCE", "MAINTENANCE")),
    ],
)
def test_states_of_nodes(text, found):
    """scontrol's and sinfo's words, with flags and suffixes."""
    assert states.node(text) == found


def test_a_word_that_slurm_does_not_have_is_refused():
    """It is a sign that columns moved."""
    for read in (states.job, states.node):
        with pytest.raises(ValueError, match="that Slurm has"):
            read("n[1-4]")
