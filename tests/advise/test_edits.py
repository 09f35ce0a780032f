"""Edits of a spec: the line that is meant changes, and nothing else."""

import tomllib

import pytest

from tidemill.advise import edits
from tidemill.ledger.fix import Edit
from tidemill.model.errors import SpecError
from tidemill.twin.spec import fleet_spec

SPEC = """\
# a fleet
[twin]
name = "t"

[[contract]]
name = "h100"        # the name stays
kind = "H100"
count = 64           # and so does this remark
usd_per_hour = 2.25

[[contract]]
name = "h200"
kind = "H200"
count = 16
usd_per_hour = 3

[[team]]
name = "a"
limit = { H100 = 16 }

[[team]]
name = "b"

[[workload]]
name = "train"
team = "a"
per_day = 3
sizes = { 8 = 1 }
run = { median = "1h", mean = "2h" }
checkpoint = { every = "30m", cost = "20s" }
"""


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (Edit("contract", "h100", "count", 56), "count = 56           # and so does this remark"),
        (Edit("contract", "h200", "count", 8), "count = 8"),
        (Edit("contract", "h200", "spares", 1), "spares = 1"),
        (Edit("team", "a", "limit.H100", 24), "limit = { H100 = 24 }"),
        (Edit("team", "a", "limit.H200", 8), "limit = { H100 = 16, H200 = 8 }"),
        (Edit("team", "b", "limit.H100", 8), "limit = { H100 = 8 }"),
        (Edit("team", "a", "maximum.H100", 24), "limit = { H100 = 24 }"),
        (Edit("team", "b", "maximum.H100", 8), "maximum = { H100 = 8 }"),
        (
            Edit("workload", "train", "checkpoint.every", "1h30m"),
            'checkpoint = { every = "1h30m", cost = "20s" }',
        ),
        (Edit("policy", "", "may_move", True), "may_move = true"),
        (Edit("policy", "", "cull_idle_after", "1h"), 'cull_idle_after = "1h"'),
    ],
)
def test_one_line_changes(edit: Edit, line: str):
    """The field has the value, remarks stay, and the spec can still be read."""
    made = edits.apply(SPEC, [edit])
    assert line in made.splitlines()
    changed = [text for text in SPEC.splitlines() if text not in made.splitlines()]
    assert len(changed) <= 1
    fleet_spec.parse(made, "made.toml")


@pytest.mark.parametrize("word", ["maximum", "max", "limits"])
def test_a_field_is_changed_under_the_word_that_the_file_has_for_it(word: str):
    """Never a second word beside it: two words for one field would be refused."""
    text = SPEC.replace("limit = {", f"{word} = {{").replace("count = 64", "gpus = 64")
    asked = [Edit("team", "a", "maximum.H100", 24), Edit("contract", "h100", "count", 56)]
    made = edits.apply(text, asked)
    assert f"{word} = {{ H100 = 24 }}" in made.splitlines()
    assert "gpus = 56           # and so does this remark" in made.splitlines()
    assert fleet_spec.parse(made, "made.toml").teams[0].limit == {"H100": 24}


def test_edits_follow_each_other():
    """Two edits of one spec are both there, also where the table was made by the first."""
    asked = [Edit("policy", "", "may_move", True), Edit("policy", "", "drain", "1h")]
    found = tomllib.loads(edits.apply(SPEC, asked))["policy"]
    assert found == {"may_move": True, "drain": "1h"}


def test_a_row_that_is_not_there_is_refused():
    """An edit of a workload that the file does not have says so, and whether it is the file."""
    with pytest.raises(SpecError, match=r"no \[\[workload\]\] named `tune`"):
        edits.apply(SPEC, [Edit("workload", "tune", "checkpoint.every", "1h")])


def test_a_form_that_is_not_edited_is_refused():
    """A field in a table of its own is left to people rather than written wrongly."""
    apart = SPEC.replace('checkpoint = { every = "30m", cost = "20s" }\n', "")
    apart += '[workload.checkpoint]\nevery = "30m"\n'
    with pytest.raises(SpecError, match="cannot be written into this file line by line"):
        edits.apply(apart, [Edit("workload", "train", "checkpoint.every", "1h")])
