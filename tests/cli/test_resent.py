"""How long an observer waits for records that loops could not send while nobody listened."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidemill.cli.observers import resent_s


@pytest.mark.parametrize(
    ("is_going_on", "ago_s", "lateness_s", "waits_s"),
    [(True, 300, 20, 20), (False, 300, 20, 20), (False, 300, 60, 24), (False, 21, 20, 0),
     (True, 60, 60, 0), (False, 61, 60, 0)],
    ids=["again", "new, since earlier", "longest pause", "new", "at once again", "new, late"],
)  # fmt: skip
def test_records_of_the_past_are_waited_for(
    is_going_on: bool, ago_s: float, lateness_s: float, waits_s: float
):
    """Of a journal that goes on, and of a new one that begins in the past."""
    mark_ms = round(1000 * (time.time() - ago_s))
    terms = cast("Any", SimpleNamespace(lateness_ms=1000 * lateness_s))
    observer = cast("Any", SimpleNamespace(is_going_on=is_going_on, mark_ms=mark_ms))
    loops = cast("Any", [SimpleNamespace(resent_s=24.0)])
    assert resent_s(terms, observer, loops) == waits_s
