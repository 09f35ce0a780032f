"""Windows of several sources become events of the right attempts, and the books agree."""

import polars as pl
import pytest

from tidemill import api
from tidemill.cli import efficiency_tables
from tidemill.journal.contradictions import ContradictionSort
from tidemill.ledger import efficiency, missing
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.unknowns import is_busy_told, unknowns_of
from tidemill.live.history import events
from tidemill.live.history.rows import SeenNode
from tidemill.live.measured.windows import SAVES, UPS, WINDOWS, Measurements, both, nothing
from tidemill.live.prices.rules import flat
from tidemill.model.states import Confidence

T0 = 1_790_000_000_000
NODE = SeenNode(name="n", gpus=2, gpu_type="H100")


def attempt(job: str = "a", start_s: int = 0, end_s: int | None = 100, **more: object) -> dict:
    """One attempt of a job on both GPUs of a node."""
    ends = None if end_s is None else T0 + 1000 * end_s
    asked = {"job": job, "submit_ms": T0, "start_ms": T0 + 1000 * start_s, "end_ms": ends}
    return asked | {"gpus": 2, "nodes": ["n"]} | more


def window(start_s: int, end_s: int, source: str = "track", job: str = "a", **shares: int) -> dict:
    """One window of a job."""
    at = {"start_ms": T0 + 1000 * start_s, "end_ms": T0 + 1000 * end_s}
    return {"job": job, "source": source} | at | shares


def measured(*windows: dict, saves: tuple = (), ups: tuple = ()) -> Measurements:
    """What was measured, from rows."""
    saved = [("a", T0, None, *(T0 + 1000 * s for s in one), False, False, None) for one in saves]
    launched = [
        ("a", T0 + 1000 * at, up, True, up or T0 + 1000 * at, n) for n, (at, up) in enumerate(ups)
    ]
    return Measurements(
        pl.DataFrame([*windows], schema=WINDOWS),
        pl.DataFrame(saved, SAVES, orient="row"),
        pl.DataFrame(launched, UPS, orient="row"),
    )  # fmt: skip


def seconds(told: Measurements, *attempts: dict, until_s: int | None = None) -> dict[Bucket, float]:
    """Seconds of one GPU by bucket, of the whole history."""
    until = None if until_s is None else T0 + 1000 * until_s
    history = events.build(
        pl.DataFrame([*attempts]), [NODE], flat({"": 1_000_000}), until_ms=until, measured=told
    )
    account = api.keep_history(history).statement.total()
    return {b: account.milli_ms[b] / 2e6 for b in Bucket if account.milli_ms[b]}


def test_a_device_that_does_not_work_is_idle_but_for_what_the_loop_explains():
    """20 % checkpoint, 30 % data; the device works 40 %: the other 10 % is idle."""
    loop = window(0, 100, checkpoint_ppm=200_000, data_ppm=300_000, mfu_ppm=100_000)
    device = window(0, 100, "dcgm", busy_ppm=400_000)
    found = seconds(measured(loop, device), attempt())
    assert found[Bucket.CHECKPOINT] == pytest.approx(20, abs=0.01)
    assert found[Bucket.IDLE] == pytest.approx(10, abs=0.01)
    assert found[Bucket.HOST] == pytest.approx(30, abs=0.01)
    assert found[Bucket.USEFUL] == pytest.approx(10, abs=0.01)
    assert found[Bucket.BELOW_PEAK] == pytest.approx(30, abs=0.01)
    assert sum(found.values()) == pytest.approx(100)


def test_idle_time_of_a_window_lies_where_the_loop_explains_none_of_it():
    """Busy for 40 of 100 s: of the other 60 the loop saved for 30 and was over for 20."""
    saving = window(0, 30, checkpoint_ppm=1_000_000)
    steps = window(30, 80, mfu_ppm=200_000)
    over = window(80, 100, busy_ppm=0)
    told = measured(saving, steps, over, window(0, 100, "dcgm", busy_ppm=400_000))
    found = seconds(told, attempt())
    assert found[Bucket.CHECKPOINT] == pytest.approx(30, abs=0.01)
    assert found[Bucket.IDLE] == pytest.approx(20 + 10, abs=0.01)
    assert found[Bucket.USEFUL] == pytest.approx(10, abs=0.01)
    assert found[Bucket.BELOW_PEAK] == pytest.approx(30, abs=0.01)


def test_windows_of_two_sources_are_cut_at_each_others_edges():
    """The device is watched for a part of the time only; where nobody watches it is unknown."""
    loop = window(0, 60, mfu_ppm=500_000)
    device = window(40, 80, "dcgm", busy_ppm=500_000)
    found = seconds(measured(loop, device), attempt())
    assert found[Bucket.USEFUL] == pytest.approx(30, abs=0.01), "an MFU is of the whole window"
    assert found[Bucket.IDLE] == pytest.approx(20, abs=0.01)
    assert found[Bucket.UNKNOWN] == pytest.approx(10 + 20, abs=0.01), "60 to 80 half, 80 to 100"


@pytest.mark.parametrize(("until_s", "is_known"), [(99, True), (61, False)])
def test_a_device_that_was_always_busy_is_known_to_be_so(until_s: int, is_known: bool):
    """That nothing was idle is measured where all but a rounding of the time is; else unknown."""
    told = measured(window(0, until_s, "dcgm", busy_ppm=1_000_000))
    history = events.build(pl.DataFrame([attempt()]), [NODE], flat({"": 1}), measured=told)
    statement = api.keep_history(history).statement
    assert statement.total().milli_ms[Bucket.IDLE] == 0
    assert is_busy_told(statement) is is_known
    assert (Bucket.IDLE in unknowns_of(statement)) is not is_known


def test_a_gpu_that_nobody_measured_may_have_stood_idle():
    """One of its two was always busy: that nothing was idle is not known of the job."""
    told = measured(window(0, 100, "dcgm", busy_ppm=1_000_000, unseen_gpus=1))
    history = events.build(pl.DataFrame([attempt()]), [NODE], flat({"": 1}), measured=told)
    statement = api.keep_history(history).statement
    assert not is_busy_told(statement)
    assert Bucket.IDLE in unknowns_of(statement)


@pytest.mark.parametrize("seen", [(61, 0), (100, 1)])
def test_time_of_which_devices_were_not_sampled_leaves_a_bound(seen: tuple[int, int]):
    """Idle for 61 of 100 s and not sampled after; or one GPU of two was not for a part of it."""
    until_s, unseen_gpus = seen
    first = window(0, 61, "dcgm", busy_ppm=0)
    later = window(61, until_s, "dcgm", busy_ppm=1_000_000, unseen_gpus=unseen_gpus)
    told = measured(*([first, later] if until_s > 61 else [first]))
    history = events.build(pl.DataFrame([attempt()]), [NODE], flat({"": 1}), measured=told)
    statement = api.keep_history(history).statement
    (row,) = efficiency.efficiencies(statement).rows
    assert row.may_be_more([Bucket.IDLE])
    assert row.occupancy.milli_ms is None
    assert not is_busy_told(statement)
    assert "at most 39.00 % (nobody measured all of the time when" in efficiency_tables.use(row)


def test_what_gpus_did_that_were_not_sampled_is_inferred_from_the_others():
    """As of silent ranks: of one of two GPUs, not heard for half of the time, by the other."""
    told = measured(
        window(0, 50, "dcgm", busy_ppm=500_000),
        window(50, 100, "dcgm", busy_ppm=500_000, unseen_gpus=1, unseen_ppm=500_000),
    )
    history = events.build(pl.DataFrame([attempt()]), [NODE], flat({"": 1}), measured=told)
    known = api.keep_history(history).statement.confidence_of(Bucket.IDLE)
    assert known == {Confidence.MEASURED: 75_000_000, Confidence.INFERRED: 25_000_000}


def test_idle_that_was_measured_for_a_while_is_the_least_that_there_was():
    """A tenth of the time was watched, half of that idle; and a job that is idle after its loop."""
    for told in (
        measured(window(0, 10, "dcgm", busy_ppm=500_000)),
        measured(window(0, 95, mfu_ppm=300_000), window(95, 100, busy_ppm=0)),
    ):
        history = events.build(pl.DataFrame([attempt()]), [NODE], flat({"": 1}), measured=told)
        statement = api.keep_history(history).statement
        (row,) = efficiency.efficiencies(statement).rows
        assert row.figure([Bucket.IDLE]).milli_ms == pytest.approx(5 * 2e6, rel=0.01)
        assert row.may_be_more([Bucket.IDLE])
        assert not is_busy_told(statement)


def test_who_never_came_up_was_neither_idle_nor_waiting():
    """All of its time was starting: what is left for the other lines is nothing, and known."""
    told = measured(ups=((0, None),))
    history = events.build(
        pl.DataFrame([attempt(outcome="failed")]), [NODE], flat({"": 1}), measured=told
    )
    (row,) = efficiency.efficiencies(api.keep_history(history).statement).rows
    for bucket in (Bucket.IDLE, Bucket.HOST, Bucket.CHECKPOINT, Bucket.USEFUL):
        assert row.figure([bucket]) == (0, Confidence.MEASURED), bucket
    assert not row.may_be_more([Bucket.STARTING])


def test_what_no_window_covers_is_unknown():
    """A gap between two windows is not filled from either."""
    found = seconds(
        measured(window(0, 20, mfu_ppm=400_000), window(50, 70, mfu_ppm=400_000)), attempt()
    )
    assert found[Bucket.UNKNOWN] == pytest.approx(60, abs=0.01)
    assert found[Bucket.USEFUL] == pytest.approx(16, abs=0.01)


def test_attempts_have_their_own_windows_and_saves():
    """Killed at 100 s, safe up to 60 s; the second attempt begins its loop after 20 s."""
    told = measured(
        window(10, 100, mfu_ppm=500_000), window(130, 180, mfu_ppm=500_000), saves=((70, 60),),
        ups=((0, T0 + 10_000), (110, T0 + 130_000)),
    )  # fmt: skip
    first = attempt(outcome="requeued")
    found = seconds(told, first, attempt(start_s=110, end_s=180, outcome="done"))
    assert found[Bucket.STARTING] == pytest.approx(10)
    assert found[Bucket.RESTART] == pytest.approx(20)
    assert found[Bucket.REWORK] == pytest.approx(40)
    assert found[Bucket.USEFUL] == pytest.approx(25 + 25, abs=0.01)


def test_a_loop_that_never_began_was_starting_all_the_time():
    """Also while it still runs, and where nothing was saved."""
    found = seconds(measured(ups=((0, None),)), attempt(outcome="failed"))
    assert found[Bucket.STARTING] == pytest.approx(100, abs=0.01)
    running = attempt(end_s=None, outcome="running")
    found = seconds(measured(ups=((0, None),)), running, until_s=50)
    assert found[Bucket.STARTING] == pytest.approx(50)


def test_steps_beside_others_are_compared_with_steps_alone():
    """Steps take twice as long while another job is on the same GPUs: half of that time."""
    alone = [window(s, s + 5, step_us=1000, mfu_ppm=400_000) for s in range(0, 50, 5)]
    beside = [window(s, s + 5, step_us=2000, mfu_ppm=200_000) for s in range(50, 100, 5)]
    other = attempt("b", 50, 100)
    found = seconds(measured(*alone, *beside), attempt(), other)
    assert found[Bucket.INTERFERENCE] == pytest.approx(25, abs=0.1)
    assert found[Bucket.USEFUL] == pytest.approx(20 + 10, abs=0.1)


def test_lines_are_known_by_most_of_their_time():
    """A line of which a part was measured says so; assumed efficiencies stay what they are."""
    told = measured(window(0, 100, data_ppm=300_000, mfu_ppm=400_000))
    history = events.build(pl.DataFrame([attempt()]), [NODE], flat({"": 1}), measured=told)
    statement = api.keep_history(history).statement
    assert statement.confidence(Bucket.HOST) is Confidence.MEASURED
    assert statement.confidence(Bucket.USEFUL) is Confidence.MEASURED


def test_nothing_measured_changes_nothing():
    """An empty source is no source."""
    plain = seconds(nothing(), attempt())
    assert plain == {Bucket.UNKNOWN: pytest.approx(100)}
    told = measured(window(0, 100, data_ppm=1))
    assert seconds(both(nothing(), told), attempt()) == seconds(told, attempt())


def test_an_mfu_beside_devices_that_stood_still_is_said():
    """A service says an MFU of 40 %, its GPU was at work for 20 % of the time: not both."""
    loop, device = window(0, 100, mfu_ppm=400_000), window(0, 100, "dcgm", busy_ppm=200_000)
    history = events.build(
        pl.DataFrame([attempt()]), [NODE], flat({"": 1_000_000}), measured=measured(loop, device)
    )
    (found,) = history.contradictions
    assert (found.sort, found.name) == (ContradictionSort.OVER_WHOLE, "a")
    assert found.says == "waits and idle time are 80 % of a minute and its MFU 40 %: 120 % in all"
    assert (found.first_ms, found.last_ms) == (T0, T0 + 100_000)


def test_waits_and_an_mfu_of_fewer_gpus_than_are_held_are_judged_on_those():
    """A loop on one of two GPUs waits 80 % and says 40 %: said, and cut to the 20 % that are left.

    Of both GPUs that is a tenth; that the other one stands still contradicts nothing.
    """
    one = {"heard_gpus": 1, "silent_gpus": 0, "said_gpus": 1}
    loop = window(0, 100, data_ppm=800_000, mfu_ppm=400_000) | one
    history = events.build(
        pl.DataFrame([attempt()]), [NODE], flat({"": 1_000_000}), measured=measured(loop)
    )
    over, fewer = sorted(history.contradictions, key=lambda found: found.sort != "over_whole")
    assert over.says == "waits and idle time are 80 % of a minute and its MFU 40 %: 120 % in all"
    assert fewer.sort is ContradictionSort.FEWER_GPUS
    assert seconds(measured(loop), attempt())[Bucket.USEFUL] == pytest.approx(10, abs=0.01)
    busy = window(0, 100, "dcgm", busy_ppm=500_000)
    full = window(0, 100, data_ppm=100_000, mfu_ppm=900_000) | one
    history = events.build(
        pl.DataFrame([attempt()]), [NODE], flat({"": 1_000_000}), measured=measured(full, busy)
    )
    assert [found.sort for found in history.contradictions] == [ContradictionSort.FEWER_GPUS]


def test_a_gpu_type_without_a_known_peak_is_the_reason_that_is_said():
    """FLOPs were told; what helps is an MFU."""
    loop = window(0, 100, data_ppm=0, mflop_per_s=400_000_000)
    node = SeenNode(name="n", gpus=2, gpu_type="FOO9000")
    history = events.build(
        pl.DataFrame([attempt()]), [node], flat({"": 1}), measured=measured(loop)
    )
    said = missing.words(api.keep_history(history).statement)
    assert said == missing.NO_PEAK.format(types="`FOO9000`")
    assert "run.efficiency(mfu=…)" in said
