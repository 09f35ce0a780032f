"""The page about the ledger says what the code says."""

from tests.docs import pages
from tidemill.ledger.buckets import ABOUT, NOT_PRODUCED
from tidemill.model.states import CONFIDENCES

PAGE = pages.text_of("docs/concepts/ledger.md")


def test_the_table_of_buckets():
    """Every bucket is on the page, in order, with its title, stage, owner and confidence."""
    rows = pages.table_with(PAGE, "what is in it")
    told = [(row["bucket"], row["title"], row["stage"], row["owner"], row["known"]) for row in rows]
    assert told == [
        (
            f"`{about.key}`",
            about.title,
            about.group.name.lower().replace("_", " "),
            about.owner.name.lower(),
            str(about.confidence),
        )
        for about in ABOUT.values()
    ]
    assert all(row["what is in it"] for row in rows)


def test_the_table_of_what_is_unknown():
    """Every bucket that nothing can fill is on the page, with the reason that the ledger gives."""
    told = {row["bucket"]: row["why"] for row in pages.table_with(PAGE, "why")}
    assert told == {f"`{ABOUT[bucket].key}`": why for bucket, why in NOT_PRODUCED.items()}


def test_the_table_of_confidences():
    """Every confidence has its meaning on the page."""
    told = [row["known as"] for row in pages.table_with(PAGE, "known as")]
    assert told == [str(confidence) for confidence in CONFIDENCES]
