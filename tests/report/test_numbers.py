"""What the page prints adds up, to the cent and to 100.00 %."""

import re
from functools import cache
from itertools import pairwise

import polars as pl
import pytest

from tests.report import stories
from tests.report.reading import Element, basis_points, cents, read, tenths, width
from tidemill import api, report
from tidemill.explain import board
from tidemill.ledger import ratios
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.leaks import remedies
from tidemill.ledger.unknowns import unknowns
from tidemill.live.history import events
from tidemill.live.history.rows import SeenNode
from tidemill.live.prices.rules import flat
from tidemill.model.measures import DAY_MS, DOLLAR_MICRO, HOUR_MS
from tidemill.model.states import Confidence
from tidemill.report import breakdown, fixes, timeline, words

T0 = 1_794_000_000_000
CHARTS = ("waterfall", "waterfall-narrow")


@cache
def page() -> Element:
    story = stories.small()
    shown = board(story.world, story.policy)
    return read(report.render(story.statement, title="small", board=shown))


def said(row: Element, of: str) -> str:
    return row.one(of=of).text


@pytest.mark.parametrize("chart", CHARTS)
def test_the_waterfall_adds_up(chart: str):
    """The printed dollars of the bars are the printed total to the cent; shares make 100.00 %."""
    svg = page().one("svg", id=chart)
    bars = svg.all("g", data_bucket="")
    paid = svg.one("g", data_sum="paid")
    assert sum(cents(said(bar, "usd")) for bar in bars) == cents(said(paid, "usd"))
    assert sum(basis_points(said(bar, "percent")) for bar in bars) == 10_000
    assert basis_points(said(paid, "percent")) == 10_000


@pytest.mark.parametrize("chart", CHARTS)
def test_the_waterfall_is_the_ledger(chart: str):
    """One bar for each bucket that holds something, in the ledger's order, with its numbers."""
    account = stories.small().statement.total()
    bars = page().one("svg", id=chart).all("g", data_bucket="")
    filled = [b for b in Bucket if account.milli_ms[b]]
    assert [bar["data-bucket"] for bar in bars] == [ABOUT[b].key for b in filled]
    dollars = account.in_units(DOLLAR_MICRO)  # so much that cents would be noise
    assert [cents(said(bar, "usd")) for bar in bars] == [100 * dollars[b] for b in filled]
    assert len(filled) > 12, "the story is meant to fill most buckets"


@pytest.mark.parametrize("chart", CHARTS)
def test_each_bar_begins_where_the_one_above_left_off(chart: str):
    """Bars go down from the right edge to zero without gap or overlap."""
    right = 100.0
    for bar in page().one("svg", id=chart).all("g", data_bucket=""):
        rect = bar.one("rect", of="bar")
        assert width(rect["x"]) + width(rect["width"]) == pytest.approx(right, abs=2e-4)
        right = width(rect["x"])
    assert right == 0


def test_a_milestone_is_the_sum_of_what_is_below_it():
    """Ready and allocated are what the remaining bars add up to, as printed."""
    rows = page().one("svg", id="waterfall").all("g", of="row")
    sums = [i for i, row in enumerate(rows) if row.get("data-sum")]
    assert [rows[i]["data-sum"] for i in sums] == ["paid", "ready", "allocated"]
    for i in sums:
        below = [row for row in rows[i:] if row.get("data-bucket")]
        assert cents(said(rows[i], "usd")) == sum(cents(said(row, "usd")) for row in below)
        points = sum(basis_points(said(row, "percent")) for row in below)
        assert basis_points(said(rows[i], "percent")) == points


def test_the_table_adds_up_in_every_column():
    """Share, dollars, hours and H100 hours: each column is its last row."""
    table = page().one("table", of="ledger")
    total = table.one("tr", data_total="")
    lines = [row for row in table.all("tr", data_bucket="") if row.all("td", of="usd")]
    for column, value in (
        ("percent", basis_points), ("usd", cents), ("usd-percent", basis_points),
        ("hours", tenths), ("equivalent", tenths),
    ):  # fmt: skip
        assert sum(value(said(line, column)) for line in lines) == value(said(total, column))
    assert basis_points(said(total, "percent")) == 10_000


def test_what_nothing_can_measure_yet_is_unknown_not_zero():
    """Every bucket has its line; those that no layer fills say so and print no number. Only what
    would say that nothing is unknown is left out.
    """
    account = stories.small().statement.total()
    rows = page().one("table", of="ledger").all("tr", data_bucket="")
    assert [row["data-bucket"] for row in rows] == [
        about.key
        for bucket, about in ABOUT.items()
        if account.milli_ms[bucket] or about.confidence is not Confidence.UNKNOWN
    ]
    by_key = {row["data-bucket"]: row for row in rows}
    for bucket, why in unknowns(account).items():
        row = by_key[ABOUT[bucket].key]
        assert row.one("td", of="unmeasured").text == f"unknown: {why.replace('`', '')}"
        assert not row.all(of="number")


@pytest.mark.parametrize("dimension", breakdown.TITLES)
def test_breakdowns_add_up_to_the_ledger(dimension: str):
    """The rows of every breakdown are the ledger's dollars and hours, as printed."""
    ledger = page().one("table", of="ledger").one("tr", data_total="")
    table = page().one("table", data_by=dimension)
    total = table.one("tr", data_total="")
    rows = table.one("tbody").all("tr")
    for column, value in (("usd", cents), ("hours", tenths)):
        assert sum(value(said(row, column)) for row in rows) == value(said(total, column))
        assert said(total, column) == said(ledger, column)


def test_large_fleets_are_summed_up():
    """After twenty teams the others are one row, and the columns still add up."""
    story = stories.crowd()
    html = report.render(story.statement, title="crowd")
    table = read(html).one("table", data_by="team")
    rows = table.one("tbody").all("tr")
    names = [row.one("th").text for row in rows]
    assert len(rows) == breakdown.MOST_ROWS + 2
    assert names[-2:] == ["10 others", "nobody"]
    total = table.one("tr", data_total="")
    assert sum(cents(said(row, "usd")) for row in rows) == cents(said(total, "usd"))


def test_a_year_in_minutes_is_still_a_small_file():
    """Time is drawn in a bounded number of steps, whatever the ledger's bins are."""
    fine = stories.run(stories.SMALL, bin_ms=60_000)
    html = report.render(fine.statement, title="fine")
    slots = read(html).one("svg", id="timeline").all("rect", of="slot")
    assert timeline.MOST_BINS // 2 < len(slots) <= timeline.MOST_BINS
    assert len(html) < 300_000


def test_the_time_chart_stacks_up_to_what_was_paid():
    """The bands lie on each other: the upper edge of one is the lower edge of the next."""
    story = stories.small()
    chart = timeline.timeline(story.statement, story.statement.total())
    assert chart is not None
    outlines = [_edges(area.path) for area in chart.areas]
    for (_, upper), (lower, _) in pairwise(outlines):
        assert upper == lower
    assert set(outlines[0][0]) == {float(timeline.PLOT_HEIGHT)}
    assert len(chart.x_ticks) >= 3


def test_how_it_is_known_adds_up():
    """Measured, inferred, modelled and unknown make 100.00 % of what was paid."""
    shares = page().all("div", data_known="")
    assert len(shares) == 4
    assert sum(basis_points(said(share, "value")) for share in shares) == 10_000


def test_the_headline_is_the_ledger():
    """Paid and useful in the headline are the printed ledger's; some work is unknown, so ≥."""
    story = stories.small()
    account = story.statement.total()
    figures = {f["data-figure"]: said(f, "value") for f in page().all("div", data_figure="")}
    assert cents(figures["paid"]) == 100 * sum(account.in_units(DOLLAR_MICRO))
    assert figures["useful"] == f"≥\u00a0{words.percent(account.basis_points()[Bucket.USEFUL])}"
    per_hour = ratios.usd_micro_per_useful_hour(account)
    assert per_hour is not None
    assert cents(figures["hourly"].removeprefix("≤\u00a0")) == round(per_hour / 10_000)
    assert set(figures) == {"paid", "useful", "hourly", "point"}


def test_useful_work_that_nobody_measured_is_unknown_not_zero():
    """Where no work told its efficiency, useful is unknown in headline, goodput, MFU and tables."""
    tree = read(report.render(stories.hostile().statement, title="unknown"))
    assert tree.one("p", of="verdict").text.startswith("Nobody knows yet")
    assert said(tree.one("div", data_figure="useful"), "value") == "unknown"
    bar = tree.one("svg", id="waterfall").one("g", data_bucket="useful")
    assert (said(bar, "usd"), said(bar, "percent")) == ("", "unknown")
    assert said(tree.one("div", data_figure="hourly"), "value") == "unknown"
    assert tree.one("div", data_goodput="overall").one("dd").text == "unknown"
    mfu = tree.one("svg", id="utilisations").all("g", of="mark")[-1]
    assert said(mfu, "percent") == "unknown"
    assert not mfu.all("circle")
    assert tree.one("tr", data_bucket="useful").all("td")[-1].text == "unknown"
    assert "known to have been useful" in tree.one("section", id="time").text


def test_goodput_is_a_product():
    """Scheduling × runtime × program is overall, which is the ledger's useful share."""
    shown = {row["data-goodput"]: row.one("dd").text for row in page().all("div", data_goodput="")}
    parts = [basis_points(shown[name]) / 10_000 for name in ("scheduling", "runtime", "program")]
    overall = basis_points(shown["overall"]) / 10_000
    assert parts[0] * parts[1] * parts[2] == pytest.approx(overall, abs=2e-4)
    svg = page().one("svg", id="waterfall")
    assert shown["scheduling"] == said(svg.one("g", data_sum="allocated"), "percent")
    assert shown["overall"] == f"≥\u00a0{said(svg.one('g', data_bucket='useful'), 'percent')}"


def test_three_utilisations_share_an_axis():
    """Allocation, occupancy and MFU are placed by their share; exactly one misleads."""
    marks = page().one("svg", id="utilisations").all("g", of="mark")
    names = [mark.one("text", of="name").text for mark in marks]
    assert names == ["allocation", "occupancy", "MFU"]
    places = [width(mark.one("circle")["cx"]) for mark in marks]
    assert places == sorted(places, reverse=True)
    for mark, place in zip(marks, places, strict=True):
        percent = basis_points(said(mark, "percent")) / 100  # the sum of rounded parts
        assert place == pytest.approx(percent, abs=0.021)
    assert sum("misleading" in mark.classes for mark in marks) == 1


def test_every_fix_says_who_what_and_what_it_costs():
    """The fixes are the ledger's, in its order; what is not predicted says so."""
    found = remedies(stories.small().statement)
    cards = page().one("ol", of="fixes").all("li")
    assert len(cards) == len(found) > 2
    for card, (leak, fix, wins, _) in zip(cards, found, strict=True):
        for said in (fix.rule, fix.words, fix.costs, ", ".join(fix.who)):
            assert said.replace("`", "") in card.text
        assert all(edit.text in card.text for edit in fix.edits)
        assert (fix.measure or leak.command) in card.text
        assert ("not predicted" in card.text) == (wins is None)


def test_what_is_said_of_all_fixes_is_true_of_them():
    """A page without a predicted win does not speak of predicted wins; one with some does."""
    rows = pl.DataFrame([
        {"job": "a", "submit_ms": T0, "start_ms": T0 + HOUR_MS, "end_ms": T0 + 2 * HOUR_MS,
         "gpus": 4, "nodes": ["n1"], "outcome": "done"},
    ])  # fmt: skip
    nodes = [SeenNode(name="n1", gpus=8, gpu_type="h100")]
    observed = api.keep_history(events.build(rows, nodes, flat({"": 2_000_000}))).statement
    shown = read(report.render(observed, title="observed"))
    cards = shown.one("ol", of="fixes").all("li")
    assert cards
    assert all("not predicted" in card.text for card in cards)
    won = read(report.render(stories.demo().statement, title="demo"))
    cards = won.one("ol", of="fixes").all("li")
    assert not all("not predicted" in card.text for card in cards)
    for made, is_predicted in ((shown, False), (won, True)):
        intro = made.one("section", id="fixes").one("p", of="intro").text
        assert ("Wins are predicted" in intro) is is_predicted


@pytest.mark.parametrize("story", [stories.small, stories.crowd])
def test_a_leak_costs_the_same_in_its_fix_and_on_its_line(story):
    """One page, one rounding: the leak beside a fix has the dollars of its line of the ledger."""
    statement = story().statement
    account = statement.total()
    unit = words.unit_micro(account)
    lines = {ABOUT[b].title: words.usd(account.in_units(unit)[b], unit) for b in Bucket}
    cards = fixes.cards(statement)
    assert cards
    assert [card.leak for card in cards] == [lines[card.bucket] for card in cards]


def test_the_board_is_on_the_page():
    """What waits is there by cause, and counts every waiting job."""
    story = stories.crowd()
    shown = board(story.world, story.policy)
    html = report.render(story.statement, title="crowd", board=shown)
    rows = read(html).one("table", of="pending").all("tr", of="said")
    assert len(rows) == len(shown.rows) > 0
    assert sum(int(row.all("td")[0].text.replace(",", "")) for row in rows) == shown.jobs


def test_an_empty_ledger_is_told_kindly():
    """Nothing paid: a page that says so and what to look at, without a table of zeros."""
    html = report.render(stories.nothing(), title="empty")
    main = read(html).one("main")
    assert main.one("p", of="verdict").text == "Nothing was paid for in this window."
    assert not main.all("table")
    assert "0.00" not in main.text


def test_a_ledger_in_one_piece_has_no_course_over_time():
    """Without bins the page says that there is no time to show; the rest is there."""
    story = stories.run(stories.SMALL, bin_ms=30 * DAY_MS)
    tree = read(report.render(story.statement, title="one"))
    assert not tree.all("svg", id="timeline")
    assert "read in one piece" in tree.one("section", id="time").text
    assert tree.one("svg", id="waterfall").all("g", data_bucket="useful")


def test_the_same_statement_gives_the_same_page():
    """Nothing on the page depends on when or where it is made."""
    statement = stories.small().statement
    assert report.render(statement, title="a") == report.render(statement, title="a")


def _edges(path: str) -> tuple[list[float], list[float]]:
    """The lower and the upper edge of a band, as heights at evenly spaced places."""
    stretches: list[tuple[float, float, float]] = []
    x = y = 0.0
    for kind, value, other in re.findall(r"([MHV])([\d.]+)(?: ([\d.]+))?", path):
        if kind == "M":
            x, y = float(value), float(other)
        elif kind == "V":
            y = float(value)
        else:
            stretches.append((x, float(value), y))
            x = float(value)
    places = [5.27 + 10 * i for i in range(timeline.PLOT_WIDTH // 10)]
    upper = [next(y for a, b, y in stretches if a <= at <= b) for at in places]
    lower = [next(y for a, b, y in stretches if b <= at <= a) for at in places]
    return lower, upper
