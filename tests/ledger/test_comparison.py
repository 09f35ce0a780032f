"""Two ledgers side by side, and the jobs that wasted most."""

import pytest

from tidemill import api
from tidemill.cli import comparison_tables
from tidemill.ledger import comparison
from tidemill.ledger.account import DENOMINATOR, rounded
from tidemill.ledger.buckets import ABOUT, Bucket, Stage
from tidemill.ledger.comparison import Compared, Side
from tidemill.ledger.statement import Statement
from tidemill.ledger.top import top_jobs
from tidemill.twin.spec import fleet_spec

FLEET = """
[twin]
seed = 9
horizon = "2d"
[[contract]]
name = "a"
kind = "A100"
count = {a100}
usd_per_hour = 1
[[team]]
name = "t"
[[workload]]
name = "w"
team = "t"
users = 3
per_day = {per_day}
sizes = {{ 1 = 0.4, 2 = 0.2, 4 = 0.4 }} # half of the smaller fleet is the most drawn by chance
run = {{ median = "1h", mean = "2h", longest = "8h" }}
kinds = ["A100"]
mfu = 0.3
crash = 0.2
checkpoint = {{ every = "30m", cost = "1m" }}
"""


def _statement(a100: int, per_day: int = 36) -> Statement:
    return api.simulate(fleet_spec.parse(FLEET.format(a100=a100, per_day=per_day))).statement


@pytest.fixture(scope="module")
def halved() -> tuple[Statement, Statement]:
    """The same work on 16 A100 and on 8."""
    return _statement(16), _statement(8)


def test_a_cheaper_fleet_shows_its_waits(halved: tuple[Statement, Statement]):
    """Half the A100s: less is paid, a useful hour costs less, and everybody waits for longer."""
    rows = {row.key: row for row in comparison.compare(*halved)}
    assert (rows["paid"].change.value or 0) < 0
    assert (rows["usd_per_useful_hour"].change.value or 0) < 0
    for key in ("wait_mean", "wait_p50", "wait_p90", "jobs_waiting"):
        assert (rows[key].change.value or 0) > 0, key
    for side, statement in zip(("before", "after"), halved, strict=True):
        assert getattr(rows["paid"], side).value == statement.total().paid_usd_micro
        wait = statement.waits.figures().wait
        assert wait is not None
        assert getattr(rows["wait_p99"], side).value == wait.p99
    assert comparison.warnings(*halved) == []


def test_printed_columns_add_up(halved: tuple[Statement, Statement]):
    """The printed buckets add up to the printed paid line, on both sides and in the difference."""
    before, after = (statement.total() for statement in halved)
    table = comparison_tables.buckets(before, after, ("x", "y"))
    for column in table.columns[1:4]:
        cents = [
            round(float(str(cell).replace("$", "").replace(",", "")) * 100) for cell in column.cells
        ]
        assert cents[0] == sum(cents[1:])


def test_other_work_and_other_lengths_are_said(halved: tuple[Statement, Statement]):
    """Journals of other jobs, and windows of another length, are not compared in silence."""
    other = _statement(16, per_day=20)
    (said,) = comparison.warnings(halved[0], other)
    assert "do not hold the same work" in said
    longer = api.simulate(
        fleet_spec.parse(FLEET.format(a100=16, per_day=36).replace('"2d"', '"3d"'))
    ).statement
    assert any("different length: 2d and 3d" in text for text in comparison.warnings(other, longer))


@pytest.mark.parametrize(
    ("before", "after", "bounds"),
    [
        ((5, False, False), (9, False, False), (False, False)),
        ((5, False, False), (9, True, False), (True, False)),
        ((5, True, False), (9, False, False), (False, True)),
        ((5, True, False), (9, True, False), (True, True)),
    ],
)
def test_a_difference_of_bounds_is_bounded(before, after, bounds):
    """At least minus exactly is at least; at least minus at least may be either."""
    row = comparison.Compared("k", "t", "ms", comparison.Side(*before), comparison.Side(*after))
    assert row.change == comparison.Side(4, *bounds)


def test_top_jobs_are_what_adding_up_every_job_gives(halved: tuple[Statement, Statement]):
    """The worst jobs by dollars known not to be useful, each with its largest leak."""
    statement = halved[0]
    wasted: dict[str, int] = {}
    leak: dict[str, int] = {}
    for name, account in statement.by("job").items():
        parts = [account.money[b] for b in Bucket if ABOUT[b].group < Stage.UNKNOWN]
        if name != "(nobody)" and any(parts):
            wasted[name], leak[name] = sum(parts), max(parts)
    worst = sorted(wasted, key=lambda name: (-wasted[name], statement.world.job_number[name]))
    found = top_jobs(statement, 5)
    assert [row.job for row in found] == worst[:5]
    for row in found:
        assert row.wasted_usd_micro == rounded(wasted[row.job], DENOMINATOR)
        assert row.leak_usd_micro == rounded(leak[row.job], DENOMINATOR)
        assert row.user.startswith("t-user-")
        assert row.paid_milli_ms == statement.by("job")[row.job].paid_milli_ms


def test_frames_are_the_ledger(halved: tuple[Statement, Statement]):
    """DataFrames add up to what was paid, and hold every job once."""
    statement = halved[0]
    paid = statement.total().paid_milli_ms
    for what in ("lines", "team", "user", "kind", "job", "time"):
        assert statement.frame(what)["milli_ms"].sum() == paid
    jobs = statement.frame("jobs")
    assert jobs["job"].to_list() == statement.world.job_names
    assert jobs["wait_ms"].to_list() == statement.waits.wait_ms.tolist()
    by_user = statement.frame("waits", by="user")
    assert by_user["jobs"].sum() == len(jobs)
    mean = statement.waits.figures().wait
    assert mean is not None
    assert abs(sum(jobs["wait_ms"]) / len(jobs) - mean.mean) <= 0.5
    with pytest.raises(api.SpecError, match="there is no table `nonsense`"):
        statement.frame("nonsense")


def test_dollars_that_are_known_in_part_differ_by_an_unknown_amount():
    """What has no price may be anything on each side, in every table."""
    paid = Compared("paid", "paid", "usd_micro", Side(5, is_lower_bound=True), Side(5))
    assert paid.change == Side(None)
