"""Leaks: each bucket that is not useful has an owner, evidence, a fix and the price of the fix."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import contract, job, node, opening, team
from tests.ledger.stories import STORIES, Story
from tidemill.ledger import touched
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.fix import MOST_TOLD
from tidemill.ledger.leaks import Leak, leaks, remedies
from tidemill.ledger.prices import is_claimed
from tidemill.ledger.statement import Statement, read
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Efficiency, Job, Piece
from tidemill.model.states import Confidence, JobClass, NodeState, Terms


def leak_of(statement: Statement, bucket: Bucket) -> Leak:
    return next(leak for leak in leaks(statement) if leak.bucket is bucket)


@settings(max_examples=40)
@given(STORIES)
def test_every_leak_is_accounted_for(events: Story):
    """Leaks and the useful time together are what was paid, in time and in dollars."""
    statement = read(events)
    account, found = statement.total(), leaks(statement)
    useful = account.milli_ms[Bucket.USEFUL]
    assert sum(leak.milli_ms for leak in found) + useful == account.paid_milli_ms
    useful_usd = account.usd_micro()[Bucket.USEFUL]
    assert sum(leak.usd_micro for leak in found) + useful_usd == account.paid_usd_micro
    for leak in found:
        assert leak.owner is ABOUT[leak.bucket].owner
        assert leak.evidence
        assert leak.command.startswith(f"tidemill ledger --bucket {ABOUT[leak.bucket].key} --by ")


@settings(max_examples=40)
@given(STORIES)
def test_every_fix_is_complete(events: Story):
    """Each leak has a fix; each fix says whom it touches, what it costs, and what to type or
    measure; it touches no more than the leak, and a predicted win is never negative.
    """
    statement = read(events, bin_ms=60)
    for leak in leaks(statement):
        assert leak.fixes
        for fix in leak.fixes:
            assert all((fix.words, fix.rule, fix.costs, fix.evidence))
            assert fix.who
            assert fix.edits or fix.measure
            assert fix.touches_usd_micro is not None
            assert 0 <= fix.touches_usd_micro <= leak.usd_micro + 1
            assert (fix.saves_usd_micro or 0) >= 0
            assert fix.adds_useful_milli_ms >= 0
            assert "0 accelerators" not in fix.words


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a-1", "a-2", "a-00007", "a-00008", "b-1", "-3", "c-x", "7"]),
            st.sampled_from(["t", "u"]),
        ),
        unique_by=lambda one: one[0], min_size=1,
    ),
)  # fmt: skip
def test_jobs_are_alike_by_what_describes_them(jobs: list[tuple[str, str]]):
    """Numbered copies of one name and team are one group; the only one keeps its whole name."""
    story = opening(contract(), teams=[team("t"), team("u")])
    found = read(story + [ev.JobSubmitted(1, job(name, team=of)) for name, of in jobs]).groups
    described = list[tuple[str, str, str]]()
    for name, of in jobs:
        base, _, number = name.rpartition("-")
        is_copy = bool(base) and number.isdecimal()
        table = "workload" if is_copy and len(number) >= 5 else "job"
        described.append((table, base if is_copy else name, of))
    order = list(dict.fromkeys(described))
    assert found.of_job.tolist() == [order.index(key) for key in described]
    for g, (table, base, of) in enumerate(order):
        members = [name for (name, _), key in zip(jobs, described, strict=True) if key == order[g]]
        is_one = table == "job" and len(members) == 1
        assert found.row(g)[:3] == (table, members[0] if is_one else base, of)


PARTS = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(0, 10**9), st.booleans()), min_size=1, max_size=8
)


@given(PARTS)
def test_whose_a_leak_is_is_told_as_one_by_one(parts: list[tuple[int, int, bool]]):
    """The dearest by name, how many more that are not next to nothing, and all their dollars."""
    hours, usd, unpriced = (np.array(column) for column in zip(*parts, strict=True))
    theirs = touched.LeakParts(np.arange(len(parts)), hours, usd, unpriced, str)
    each = [*theirs]
    assert each == [
        touched.Theirs(str(i), h, None if is_free else d) for i, (h, d, is_free) in enumerate(parts)
    ]
    first = each[0]
    some = [
        one for one in each
        if not (
            one.milli_ms * 1000 < first.milli_ms
            if one.usd_micro is None or first.usd_micro is None
            else one.usd_micro * 1000 < first.usd_micro
        )
    ]  # fmt: skip
    said = ", ".join(f"{one.words} {one.amount}" for one in some[:3])
    more = f" and {len(some) - 3} more" if len(some) > 3 else ""
    assert touched.words(theirs) == said + more
    amounts = [one.usd_micro for one in each]
    assert touched.known_usd(theirs) == (None if None in amounts else sum(usd.tolist()))


def test_advice_for_many_names_the_dearest_and_counts_all():
    """A leak of more jobs than can be named: so many are known by name, and how many there are."""
    count = MOST_TOLD + 5
    story = opening(contract(gpus=8 * count), teams=[team("a")])
    for j in range(count):
        story += [
            ev.JobSubmitted(1, job(f"j{j}")),
            ev.PlacementSeen(1, j, 1, (Piece(0, j, 1, 1),)), ev.JobStarted(1, j, 1),
        ]  # fmt: skip
    story += [ev.JobFinished(HOUR_MS + 10 * j, j, 1) for j in range(count)]
    fix = leak_of(read(story), Bucket.UNKNOWN).fix
    assert (len(fix.who), fix.touches) == (MOST_TOLD, count)
    assert fix.who[0] == f"job `j{count - 1}` of team `a`"


@settings(max_examples=40)
@given(STORIES)
def test_the_three_largest_leaks_have_an_entry(events: Story):
    """Whatever is predicted, the three dearest leaks are spoken of."""
    statement = read(events)
    largest = [leak for leak in leaks(statement) if leak.bucket is not Bucket.UNSAVED][:3]
    spoken = {remedy.leak.bucket for remedy in remedies(statement)}
    assert {leak.bucket for leak in largest} <= spoken


def used(hours: int, gpus: int, of: int = 40) -> list[ev.Event]:
    """So many of the accelerators of five nodes are used for so long; nothing else ever is."""
    opened = opening(contract(gpus=of, per_node=8), teams=[team("a")])
    events = [
        *opened,
        ev.JobSubmitted(0, job("x", gpus=gpus, kind=JobClass.INFERENCE)),
        ev.AskedPlace(0, 0, 1, tuple(Piece(0, n, 1, 0xFF) for n in range(gpus // 8))),
        ev.JobStarted(0, 0, 1),
    ]
    return [*events, ev.Woke(hours * HOUR_MS)]


def test_what_hardly_any_hour_needed_need_not_be_renewed():
    """Of 40 accelerators 8 are used for two days: 16 stay (twice the largest gang), 24 go.

    24 × 48 h × $2 = $2,304, all of it dollars that need not be paid.
    """
    statement = read(used(48, 8), bin_ms=HOUR_MS)
    fix = leak_of(statement, Bucket.NO_DEMAND).fix
    assert [edit.text for edit in fix.edits] == ["contract[c].count = 16"]
    assert fix.edits[0].was == 40
    assert fix.saves_usd_micro == 2_304_000_000
    assert fix.who == ("contract `c`",)
    assert is_claimed(statement, fix)


def test_fewer_spares_save_what_their_nodes_cost():
    """A spare that stood in for half of two days is paid for all of them: 8 × 48 h × $2."""
    opened = opening(contract(gpus=40, per_node=8, spares=1), teams=[team("a")])
    events = [*opened, ev.AskedSpare(24 * HOUR_MS, 4, False), ev.Woke(48 * HOUR_MS)]
    leak = leak_of(read(events, bin_ms=HOUR_MS), Bucket.BY_DESIGN)
    assert [edit.text for edit in leak.fix.edits] == ["contract[c].count = 32",
                                                      "contract[c].spares = 0"]  # fmt: skip
    assert (leak.usd_micro, leak.fix.saves_usd_micro) == (384_000_000, 768_000_000)
    assert leak.fix.evidence.startswith(
        "of 384.0 accelerator-hours paid for 8 spares 192.0 were spare"
    )


def test_a_fix_that_wins_no_more_than_a_part_of_it_says_so():
    """Culling frees a node that could go anyway: the guaranteed quota lets no second one go."""
    events = opening(contract(gpus=40, per_node=8), teams=[team("a", floor=32)])
    held = [(0, 1), (2,), (3,), (4,)]  # by the notebooks; the first is never used
    for j, nodes in enumerate(held):
        at_ms, gpus = 50 * HOUR_MS * (j > 0), 8 * len(nodes)
        events += [
            ev.JobSubmitted(at_ms, job(f"n{j}", gpus=gpus, kind=JobClass.INTERACTIVE, per_node=8)),
            ev.AskedPlace(at_ms, j, 1, tuple(Piece(0, n, 1, 0xFF) for n in nodes)),
            ev.JobStarted(at_ms, j, 1),
            ev.ActivitySeen(at_ms, j, 1, 1_000_000 * (j > 0)),
        ]
    events += [ev.JobFinished(51 * HOUR_MS, j, 1) for j in range(1, 4)]
    told = remedies(read([*events, ev.Woke(200 * HOUR_MS)], bin_ms=HOUR_MS))
    assert [(len(r.fix.edits), r.wins_usd_micro, r.no_more_than) for r in told[:2]] == [
        (1, 8 * 200 * 2_000_000, 0), (2, 8 * 200 * 2_000_000, 1)
    ]  # fmt: skip


def test_without_hours_to_look_at_nothing_is_released():
    """One mean over two days hides its peaks: then only advice is given."""
    statement = read(used(48, 8))
    assert not any(fix.edits for fix in leak_of(statement, Bucket.NO_DEMAND).fixes)


def test_a_full_contract_is_not_cut():
    """Where nothing is free there is nothing to release, and no fix speaks of 0 accelerators."""
    statement = read(used(48, 40), bin_ms=HOUR_MS)
    assert all(leak.bucket is not Bucket.NO_DEMAND for leak in leaks(statement))
    assert not any(fix.edits for leak in leaks(statement) for fix in leak.fixes)


def test_on_demand_is_given_back_sooner_not_left_unrenewed():
    """Idle accelerators that are paid by the hour: a setting, and a part of what they cost."""
    events: list[ev.Event] = [
        ev.ContractSigned(0, contract(gpus=2, per_node=2, terms=Terms.ON_DEMAND)),
        ev.ContractStarted(0, 0),
        ev.NodeAdded(0, node("n0")),
        ev.NodeMoved(0, 0, NodeState.BOOTING),
        ev.NodeMoved(0, 0, NodeState.READY),
        ev.Woke(HOUR_MS),
    ]
    statement = read(events)
    fix = leak_of(statement, Bucket.NO_DEMAND).fix
    assert [edit.text for edit in fix.edits] == ['policy.return_idle_after = "10m"']
    assert fix.saves_usd_micro == 2 * 2_000_000 * 2 // 3 // 4
    already = read(events, policy=Policy(return_idle_after_ms=10 * MINUTE_MS))
    assert not any(fix.edits for fix in leak_of(already, Bucket.NO_DEMAND).fixes)


def running(row: Job, *then: ev.Event, end_ms: int = 10 * HOUR_MS) -> Statement:
    """Ten hours of one node on which this job starts at once."""
    return read(
        [
            *opening(contract(gpus=8), teams=[team("a")]),
            ev.JobSubmitted(0, row),
            ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0xFF),)),
            ev.JobStarted(0, 0, 1),
            *then,
            ev.Woke(end_ms),
        ]
    )


def saved(row: Job, *stops_ms: int, end_ms: int = 100 * HOUR_MS) -> Statement:
    """A job of one node that is stopped at these moments, comes back at once, and runs on."""
    again: list[ev.Event] = []
    for attempt, at_ms in enumerate(stops_ms, 1):
        again += [
            ev.JobFailed(at_ms, 0, attempt),
            ev.AskedPlace(at_ms, 0, attempt + 1, (Piece(0, 0, 1, 0xFF),)),
            ev.JobStarted(at_ms, 0, attempt + 1),
        ]
    return running(row, *again, end_ms=end_ms)


def test_the_checkpoint_interval_by_youngs_rule_for_each_job():
    """Three stops in 100 h, and one more taken to be: one stop in 33 h 20 min.

    sqrt(2 × 1 min × 2,000 min) = 63 min, so an hour; the job saves every four.
    """
    row = job("x", gpus=8, saves_every_ms=4 * HOUR_MS, save_ms=MINUTE_MS)
    statement = saved(row, 27 * HOUR_MS, 51 * HOUR_MS, 77 * HOUR_MS)
    fix = leak_of(statement, Bucket.REWORK).fix
    assert [edit.text for edit in fix.edits] == ['job[x].checkpoint.every = "1h"']
    assert fix.who == ("job `x` of team `a`",)
    assert fix.evidence.startswith("3 stops that lost work")


def test_a_job_that_saves_too_often_is_told_to_save_less():
    """Saving every 5 min at a minute each costs more than one stop in 100 h ever would."""
    row = job("x", gpus=8, saves_every_ms=5 * MINUTE_MS, save_ms=MINUTE_MS)
    statement = saved(row, 27 * HOUR_MS + 3 * MINUTE_MS)
    fix = leak_of(statement, Bucket.CHECKPOINT).fix
    assert [edit.text for edit in fix.edits] == ['job[x].checkpoint.every = "20m"']
    assert all(not fix.edits for fix in leak_of(statement, Bucket.REWORK).fixes)


def test_a_job_that_never_saves_gets_advice_not_an_interval():
    """What a save costs is not known, so no interval and no win are told."""
    statement = saved(job("x", gpus=8), 27 * HOUR_MS)
    (fix,) = leak_of(statement, Bucket.REWORK).fixes
    assert not fix.edits
    assert fix.saves_usd_micro is None
    assert "its cost must be measured first" in fix.costs


def test_only_notebooks_are_culled():
    """Idle notebooks are ended; for services, which must answer, there is only advice."""
    notebook = job("n", gpus=8, kind=JobClass.INTERACTIVE)
    service = job("s", gpus=8, kind=JobClass.INFERENCE)
    idle = ev.ActivitySeen(HOUR_MS, 0, 1, 0)
    fix = leak_of(running(notebook, idle), Bucket.IDLE).fix
    assert [edit.text for edit in fix.edits] == ['policy.cull_idle_after = "1h"']
    assert fix.who == ("job `n` of team `a`",)
    assert fix.saves_milli_ms == 8 * 8_000 * HOUR_MS  # nine hours idle, less the first
    (advice,) = leak_of(running(service, idle), Bucket.IDLE).fixes
    assert not advice.edits


def test_a_fix_names_only_those_whom_it_touches():
    """Of a service and a notebook that are both idle, culling names the notebook alone."""
    rows = (job("n", gpus=4, kind=JobClass.INTERACTIVE), job("s", gpus=4, kind=JobClass.INFERENCE))
    events = [*opening(contract(gpus=8), teams=[team("a")])]
    for j, row in enumerate(rows):
        events += [
            ev.JobSubmitted(0, row),
            ev.AskedPlace(0, j, 1, (Piece(0, 0, 1, 0xF << 4 * j),)),
            ev.JobStarted(0, j, 1),
            ev.ActivitySeen(0, j, 1, 0),
        ]
    fix = leak_of(read([*events, ev.Woke(10 * HOUR_MS)]), Bucket.IDLE).fix
    assert fix.who == ("job `n` of team `a`",)
    assert "`s`" not in fix.evidence
    assert fix.touches_usd_micro == 4 * 10 * 2_000_000


def test_a_bucket_is_known_as_most_of_its_time_is():
    """Time below peak is measured where most of it is of jobs that measure."""
    measured = Efficiency(500_000, confidence=Confidence.MEASURED)
    row = job("x", gpus=8, kind=JobClass.INFERENCE, efficiency=measured)
    statement = running(row)
    assert leak_of(statement, Bucket.BELOW_PEAK).confidence is Confidence.MEASURED
    assert ABOUT[Bucket.BELOW_PEAK].confidence is Confidence.MODELLED
    assert statement.confidence(Bucket.USEFUL) is Confidence.MEASURED
    assert statement.confidence(Bucket.NO_DEMAND) is Confidence.MEASURED


def test_work_not_yet_saved_is_no_loss():
    """What still runs, or worked with unknown efficiency, is listed, but nothing is to be won."""
    for statement, bucket in (
        (running(job("x", gpus=8)), Bucket.UNSAVED),
        (running(job("x", gpus=8), ev.JobFinished(HOUR_MS, 0, 1)), Bucket.UNKNOWN),
    ):
        (fix,) = leak_of(statement, bucket).fixes
        assert not fix.is_predicted
        assert not fix.edits
