"""When files were made: by what nearly all of them say, and not by one clock that is ahead."""

from tests.ledger.sums import amounts
from tests.live.kubernetes.made import BEGIN_MS, node, pod, taken
from tests.live.kubernetes.test_import import kept
from tidemill.live.kubernetes import translate

HOUR = 3600
DAY = 24 * HOUR


def test_a_node_whose_clock_is_ahead_does_not_lengthen_the_books():
    """Four nodes of 8 GPUs for an hour are 32 hours, whatever one of them says of tomorrow."""
    nodes = [node(f"n{i}", since=0) for i in range(3)]
    told = (*nodes, node("n3", since=0, at=DAY), pod("a", 8, on="n0"))
    past = translate.translate(taken(*told))
    assert past.seen_ms == BEGIN_MS + HOUR * 1000
    (note,) = past.end_notes
    assert "node n3 says 2026-11-03T08:00:00Z (kubectl get node n3 -o yaml)" in note
    assert "--to DATE" in note
    assert kept(*told).statement.total().paid_milli_ms == 32_000 * HOUR * 1000


def test_pods_of_a_node_whose_clock_is_ahead_do_not_lengthen_the_books():
    """A container that its kubelet says started tomorrow is by the same clock."""
    nodes = [node(f"n{i}") for i in range(3)]
    ahead = pod("b", 8, on="n3", created=100, bound=101, up=DAY - 60)
    past = translate.translate(taken(*nodes, node("n3", at=DAY), ahead, pod("a", 8, on="n0")))
    assert past.seen_ms == BEGIN_MS + HOUR * 1000
    assert amounts(kept(*nodes, node("n3", at=DAY), ahead).statement, "bucket")


def test_nodes_that_stopped_long_ago_do_not_end_the_books():
    """Of three nodes two are not Ready since days: the third, which is, tells the end."""
    gone = [node(f"n{i}", ready=False, at=0) for i in range(2)]
    past = translate.translate(taken(*gone, node("n2", at=3 * DAY), pod("a", 8, on="n2")))
    assert past.seen_ms == BEGIN_MS + 3 * DAY * 1000
    assert not past.end_notes


def test_pods_that_were_listed_hours_after_the_nodes_end_the_books():
    """The API server's own times agree with each other: no clock is ahead."""
    nodes = [node(f"n{i}") for i in range(3)]
    later = [pod(f"p{i}", 1, on="n0", created=5 * HOUR + i) for i in range(3)]
    past = translate.translate(taken(*nodes, *later))
    assert past.seen_ms == BEGIN_MS + (5 * HOUR + 2) * 1000
    assert not past.end_notes


def test_one_pod_that_was_made_years_after_all_else_is_left_out():
    """A node that is Ready tells of now: a pod of ten years later is a clock's mistake."""
    past = translate.translate(taken(node("n0"), pod("a", 8, on="n0", created=3650 * DAY, bound=9)))
    assert past.seen_ms == BEGIN_MS + HOUR * 1000
    assert (
        "pod ml/a says 2036-10-30T08:00:00Z (kubectl get pod -n ml a -o yaml)" in past.end_notes[0]
    )


def test_a_heartbeat_decades_after_all_else_is_left_out():
    """Where there is one node alone, a heartbeat of the year 2099 is not when files were made."""
    past = translate.translate(taken(node("n0", at=26_000 * DAY), pod("a", 8, on="n0", bound=9)))
    assert past.seen_ms == BEGIN_MS + 9_000
    assert "node n0 says 2098-" in past.end_notes[0]


def test_one_node_that_had_nothing_new_for_a_month_tells_the_end():
    """A heartbeat is what says that an idle machine was there all the time."""
    past = translate.translate(taken(node("n0", at=30 * DAY), pod("a", 8, on="n0")))
    assert past.seen_ms == BEGIN_MS + 30 * DAY * 1000
    assert not past.end_notes
