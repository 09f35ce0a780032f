"""What a journal keeps of a cluster's reservations and partitions, look after look."""

from tidemill.journal import site_rules
from tidemill.model.site_rules import NO_RULES, KeptNodes, PartitionLimit, SiteRules

VIP = KeptNodes("vip", ("n1",), "n1", 100, 900)
LIMIT = PartitionLimit("p", max_nodes=2)


def _after(known: SiteRules, told: SiteRules, now_ms: int, *, is_whole: bool = True) -> SiteRules:
    return site_rules.of(site_rules.facts(known, told, now_ms, is_whole=is_whole), "j")


def test_the_same_again_is_no_news():
    """A limit counts from when it was first seen; nothing is written for what is known."""
    told = SiteRules((VIP,), (LIMIT,))
    first = _after(NO_RULES, told, 200)
    assert first == SiteRules((VIP,), (LIMIT._replace(since_ms=200),))
    assert site_rules.facts(first, told, 300) == {}
    changed = _after(first, SiteRules((VIP,), (LIMIT._replace(max_nodes=3),)), 400)
    assert changed.partitions == (LIMIT._replace(max_nodes=3, since_ms=400),)


def test_what_is_not_told_any_more_is_over_unless_somebody_was_silent():
    """A deleted reservation ends when that was seen; of a cluster that is silent all stays."""
    first = _after(NO_RULES, SiteRules((VIP,), (LIMIT,)), 200)
    assert site_rules.facts(first, NO_RULES, 300, is_whole=False) == {}
    over = _after(first, NO_RULES, 300)
    assert over == SiteRules((VIP._replace(until_ms=300),))
    assert [len(over.keeping("a", ms)) for ms in (50, 100, 299, 300)] == [0, 1, 1, 0]


def test_jobs_that_asked_for_a_reservation_are_remembered():
    """The first started, the second waits: for neither it keeps its nodes for others."""
    first = _after(NO_RULES, SiteRules((VIP._replace(jobs=("a",)),)), 200)
    second = _after(first, SiteRules((VIP._replace(jobs=("b",)),)), 300)
    assert second.reservations == (VIP._replace(jobs=("a", "b")),)
    assert [len(second.keeping(job, 300)) for job in ("a", "b", "c")] == [0, 0, 1]


def test_times_and_names_of_one_of_several_clusters():
    """By another clock, and with the cluster before the names of nodes and jobs."""
    told = SiteRules((VIP._replace(jobs=("a",)),), (LIMIT,))
    moved = told.moved(-100, prefix="east/", cluster="east")
    assert moved.reservations == (KeptNodes("vip", ("east/n1",), "n1", 0, 800, ("east/a",)),)
    assert moved.partitions == (LIMIT._replace(cluster="east"),)
