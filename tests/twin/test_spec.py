"""Spec files: what may be written, and how kindly the rest is refused."""

import pytest

from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobClass, Terms
from tidemill.twin import fleet
from tidemill.twin.backend import Twin
from tidemill.twin.spec import fleet_spec

GOOD = """
[twin]
seed = 3
horizon = "2d"

[[contract]]
name = "h"
kind = "H100"
count = 64
usd_per_hour = 2.49
spares = 1

[[contract]]
name = "s"
kind = "A100"
terms = "spot"
count = 16
usd_per_hour = 0.99
start = "6h"
end = "1d12h"

[[team]]
name = "a"
floor = { H100 = 32 }
limit = { A100 = 8 }

[[workload]]
name = "train"
team = "a"
per_day = 10
sizes = { "0.25" = 1, 8 = 1 }
run = { median = "10m", mean = "1h" }
checkpoint = { every = "30m", cost = "20s" }

[[job]]
name = "big"
team = "a"
accelerators = 48
work = "5h"
kinds = ["H100"]

[faults]
node_rate = 4.2
repair = "4h"

[policy]
patience = "90m"
may_preempt = false
"""


def changed(old, new):
    assert old in GOOD, old
    return GOOD.replace(old, new, 1)


def refusal(text):
    with pytest.raises(SpecError) as caught:
        fleet_spec.parse(text, "fleet.toml")
    return str(caught.value)


def test_quantities_are_read_in_their_units():
    """Durations, dollars, shares and sizes become integers in the units of their names."""
    found = fleet_spec.parse(GOOD)
    assert found.twin.horizon == 2 * DAY_MS
    assert found.contracts[0].usd_per_hour == 2_490_000
    assert found.contracts[1].terms == Terms.SPOT
    assert (found.contracts[1].start, found.contracts[1].end) == (6 * HOUR_MS, 36 * HOUR_MS)
    assert found.workloads[0].job_class is JobClass.TRAINING
    checkpoint = found.workloads[0].checkpoint
    assert checkpoint is not None
    assert checkpoint.cost == 20_000
    assert found.policy == Policy(patience_ms=90 * MINUTE_MS, may_preempt=False)


def test_rows_of_the_model_say_the_same():
    """Contracts and teams reach the model in milli-units, micro-dollars and milliseconds."""
    found = fleet_spec.parse(GOOD)
    row = fleet.contract(found.contracts[0])
    assert (row.pool, row.usd_micro_per_hour, row.node.devices) == ("H100", 2_490_000, 8)
    shares = {share.kind: share for share in fleet.queue(found.teams[0]).shares}
    assert shares["H100"].floor_milli == 32_000
    assert shares["A100"].limit_milli == 8_000
    Twin.from_spec(found)


def test_a_gang_is_cut_into_equal_parts_that_fit_a_node():
    """48 on nodes of 8 are six replicas of 8; 12 are two of 6; 13 are thirteen of 1."""
    assert [fleet.replica_size(size, 8) for size in (48, 12, 13, 7, 0)] == [8, 6, 1, 7, 0]


REFUSED = {
    "unknown field": (
        changed("count = 16", "cuont = 16"),
        ["`fleet.toml`, [[contract]] 2 (`s`): unknown field `cuont`", "did you mean `count`?"],
    ),
    "roles": (
        GOOD + "\n[[job]]\nname = 'r'\nteam = 'a'\nwork = '1h'\nroles = [{ count = 2 }]\n",
        ["unknown field `roles`", "a job of a spec has one role", "API"],
    ),
    "unknown nested field": (
        changed("every =", "evry ="),
        ["[[workload]] 1 (`train`), `checkpoint`: unknown field `evry`", "did you mean `every`?"],
    ),
    "unknown table": (changed("[faults]", "[fault]"), ["unknown table `fault`", "`faults`?"]),
    "unknown policy": (
        changed("patience =", "patiance ="),
        ["[policy]: unknown field `patiance`", "did you mean `patience`?"],
    ),
    "policy of the wrong type": (
        changed("may_preempt = false", "may_preempt = 3"),
        ["[policy], `may_preempt`: expected true or false; found 3"],
    ),
    "policy of no duration": (
        changed('patience = "90m"', "patience = 90"),
        ['[policy], `patience`: expected a duration in quotes, such as "14d"', "found 90"],
    ),
    "negative size": (
        changed("count = 64", "count = -64"),
        ["[[contract]] 1 (`h`), `count`: expected a whole number >= 1; found -64"],
    ),
    "wrong type": (
        changed("count = 64", 'count = "many"'),
        ['`count`: expected a whole number; found "many"'],
    ),
    "no duration": (
        changed('horizon = "2d"', 'horizon = "two days"'),
        ["[twin], `horizon`: expected a duration", 'found "two days"'],
    ),
    "a duration below zero": (
        changed('patience = "90m"', 'patience = "-5s"'),
        ['`patience`: expected a duration from "0s" to 100 years', 'found "-5s"'],
    ),
    "a share above one": (
        changed("[faults]", "[faults]\ndevice_share = 27"),
        ["[faults], `device_share`: expected a share between 0 and 1; found 27"],
    ),
    "not a number": (
        changed("usd_per_hour = 2.49", "usd_per_hour = nan"),
        ["`usd_per_hour`: expected dollars between 0 and", "found nan"],
    ),
    "unknown terms": (
        changed('"spot"', '"spott"'),
        ["`terms`: expected one of reserved, on_demand, spot", "did you mean `spot`?"],
    ),
    "missing field": (
        changed("per_day = 10\n", ""),
        ["[[workload]] 1 (`train`): `per_day` is missing", "add `per_day = ...`"],
    ),
    "syntax": (
        changed("count = 64", "count 64"),
        ["`fleet.toml`, line 9, column 7 is not TOML: expected", 'found "count 64"'],
    ),
    "one bracket": (
        changed('[[team]]\nname = "a"', '[team]\nname = "a"'),
        ["[team]: expected at most 100,000 rows; found a single table", "[[team]]"],
    ),
    "gang above the fleet": (
        changed("accelerators = 48", "accelerators = 64"),
        ["job `big` requests 64 accelerators of type H100; the contracts give at most 56 at"],
    ),
    "same contract twice, overlapping": (
        changed('name = "s"', 'name = "h"'),
        ["[[contract]] 2 (`h`), `name`: the name of row 1 too, and they overlap from 6h to 1d 12h"],
    ),
    "same contract twice, one after the other": (
        changed('name = "s"', 'name = "h"').replace("spares = 1", 'end = "5h"', 1),
        ["their times do not overlap", "name a renewal apart"],
    ),
    "end before start": (
        changed('end = "1d12h"', 'end = "5h"'),
        ["[[contract]] 2 (`s`), `end`: it ends at 5h, not after its start 6h"],
    ),
    "broken node": (
        changed("count = 64", "count = 65"),
        ["65 accelerators are not whole nodes of 8"],
    ),
    "all spare": (changed("spares = 1", "spares = 8"), ["8 spare nodes of 8 leave nothing to use"]),
    "same team twice": (
        changed("[[workload]]", '[[team]]\nname = "a"\n[[workload]]'),
        ["[[team]] 2 (`a`), `name`: the name of row 1 too"],
    ),
    "same name for a job and a workload": (
        changed('name = "big"', 'name = "train"'),
        ["[[job]] 1 (`train`), `name`: the name of [[workload]] 1 too"],
    ),
    "a name that a generated job will have": (
        changed('name = "big"', 'name = "train-00001"'),
        ["jobs of `train` are named like this"],
    ),
    "unknown team": (
        changed('team = "a"', 'team = "aa"'),
        ["[[workload]] 1 (`train`), `team`: there is no team `aa`", "did you mean `a`?"],
    ),
    "unknown kind": (
        changed('kinds = ["H100"]', 'kinds = ["H200"]'),
        ["`kinds`: no contract has GPUs of type `H200`", "did you mean `H100`?"],
    ),
    "floor of an unknown kind": (
        changed("floor = { H100", "floor = { H20"),
        ["[[team]] 1 (`a`), `guaranteed`: no contract has GPUs of type `H20`"],
    ),
    "floor above the contracts": (
        changed("floor = { H100 = 32 }", "floor = { H100 = 60 }"),
        ["the guaranteed quotas of H100 add up to 60; the contracts give at most 56 at once"],
    ),
    "floor above the limit": (
        changed("limit = { A100 = 8 }", "limit = { H100 = 8 }"),
        ["`guaranteed`: 32 H100 is above the maximum quota of 8"],
    ),
    "unknown preset": (
        changed("per_day = 10", 'per_day = 10\npreset = "phily"'),
        ["there is no preset `phily`", "did you mean `philly`?"],
    ),
    "no preset and no times": (
        changed('run = { median = "10m", mean = "1h" }\n', ""),
        ["`run`: it is missing, and there is no preset", "philly"],
    ),
    "fraction without quotes": (
        changed('{ "0.25" = 1, 8 = 1 }', "{ 0.25 = 1, 8 = 1 }"),
        ["[[workload]] 1 (`train`), `sizes`"],
    ),
    "half of three": (
        changed('"0.25" = 1', '"2.5" = 1'),
        ['expected whole accelerators or a fraction of one; found "2.5"'],
    ),
    "impossible times": (
        changed('mean = "1h"', 'mean = "5m"'),
        ["`run`: no heavy-tailed times have median 10m, mean 5m"],
    ),
    "impossible tail": (
        changed('mean = "1h"', 'mean = "9d", longest = "10d"'),
        ["reach a mean of 9d when cut at 10d"],
    ),
    "tide of training": (
        changed("[[job]]", "[[job]]\ntide = { low = 0.1 }"),
        ["`tide`: only inference jobs have it; this one is training"],
    ),
    "too hungry": (
        changed("accelerators = 48", "accelerators = 48\ncpu_per_accelerator = 100"),
        ["`cpu_per_accelerator`: one replica would need more of it than the largest node has"],
    ),
    "no work": (changed('work = "5h"', 'work = "0s"'), ["`work`: expected a time above 0"]),
    "a fraction of several": (
        changed("accelerators = 48", "accelerators = 48\nfraction = 0.5"),
        ["a fraction is of one accelerator; found 48 accelerators"],
    ),
    "unknown repair": (
        changed('repair = "4h"', 'repair = "soon"'),
        ['[faults], `repair`: expected "infinitehbd", a duration or a median and mean', '"soon"'],
    ),
    "too many nodes": (
        changed("count = 64", "count = 8000000"),
        ["pays for 1,000,002 nodes; at most 200,000 fit in memory"],
    ),
    "too many jobs": (
        changed("per_day = 10", "per_day = 10000000"),
        ["asks for about 20,000,001 jobs; at most 20,000,000"],
    ),
    "nothing at all": ("", ["has no [[contract]]", "twin generate"]),
    "no horizon": (
        changed('horizon = "2d"', 'horizon = "0s"'),
        ["`horizon`: expected a time above"],
    ),
    "a deep hole": ("a = " + "[" * 50_000, ["is not TOML: it is nested too deep"]),
    "a long number": (changed("seed = 3", "seed = " + "9" * 5000), ["is not TOML: "]),
    "a large number": (changed("seed = 3", "seed = " + "9" * 50), ["`seed`: expected"]),
    "affinity without values": (
        changed("[[job]]", '[[job]]\naffinity = [{ key = "zone", test = "in" }]'),
        ["`affinity`: the test `in` of `zone` needs values; found none", 'values = ["a", "b"]'],
    ),
    "affinity above a word": (
        changed("[[job]]", '[[job]]\naffinity = [{ key = "r", test = "above", values = ["b"] }]'),
        ["`affinity`: the test `above` of `r` needs one whole number; found `b`"],
    ),
    "affinity with values for nothing": (
        changed("[[job]]", '[[job]]\naffinity = [{ key = "r", test = "exists", values = ["1"] }]'),
        ["`affinity`: the test `exists` of `r` takes no values; found `1`"],
    ),
    "efficiencies above one": (
        changed("[[job]]", "[[job]]\nmfu = 0.9\nhost_stall = 0.2"),
        ["add up to 1.10, above 1"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_by_its_place(case):
    """Each mistake names file, table, row and field, what was asked and found, and a hint."""
    text, parts = REFUSED[case]
    said = refusal(text)
    for part in parts:
        assert part in said
    assert "fleet.toml" in said
    assert "\nhint: " in said


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    """No file, a folder, no text and too much text are all spec errors."""
    for path, said in (
        (tmp_path / "none.toml", "cannot be read: no such file"),
        (tmp_path, "cannot be read: is a directory"),
    ):
        with pytest.raises(SpecError, match=said):
            fleet_spec.load(path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="byte 0 is not UTF-8"):
        fleet_spec.load(tmp_path / "binary.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (fleet_spec.MAX_BYTES + 1))
    with pytest.raises(SpecError, match="is larger than"):
        fleet_spec.load(tmp_path / "large.toml")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    """Editors that write a mark at the start of a file do no harm."""
    path = tmp_path / "fleet.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert fleet_spec.load(path).twin.seed == 3


def test_no_time_at_all_needs_no_unit():
    """The reference prints 0 as a default, so 0 is taken; other bare numbers are refused."""
    found = fleet_spec.parse(changed('patience = "90m"', "patience = 0"))
    assert found.policy.patience_ms == 0
    for given in ("1", "false", "0.0"):
        with pytest.raises(SpecError, match="a duration in quotes"):
            fleet_spec.parse(changed('patience = "90m"', f"patience = {given}"))


def test_what_an_order_of_running_jobs_leaves_unused_is_said():
    """Beside `may_reorder`, moves, resizing and backfill; under a fixed order `may_reorder` itself.

    What is off, or was not written, needs no note.
    """
    rules = 'may_reorder = true\nmay_move = true\nmay_resize = false\nbackfill = "easy"\n'
    text = changed('patience = "90m"', f'{rules}order = "shortest"')
    (note,) = fleet_spec.parse(text).notes
    assert note.endswith("`may_move` and `backfill` are not used beside `may_reorder`")
    (note,) = fleet_spec.parse(text.replace('order = "shortest"', 'order = "fifo"')).notes
    assert "`may_reorder` does nothing in the order `fifo`" in note
    assert not fleet_spec.parse(GOOD).notes
