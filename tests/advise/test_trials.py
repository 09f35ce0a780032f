"""Trials: what is predicted comes true in a replay, and what does not win is not recommended."""

from pathlib import Path
from random import Random

import pytest

from tidemill.advise import edits, replay, trials, verdict
from tidemill.ledger import leaks
from tidemill.ledger.fix import Edit
from tidemill.twin.spec import fleet_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = """\
[twin]
seed = 2
horizon = "2d"

[[contract]]
name = "h100"
kind = "H100"
count = 64
usd_per_hour = 2

[[team]]
name = "a"

[[workload]]
name = "train"
team = "a"
per_day = 40
sizes = { 1 = 0.5, 4 = 0.5 }
run = { median = "1h", mean = "2h", longest = "1d" }
checkpoint = { every = "30m", cost = "20s" }
mfu = 0.4
"""


@pytest.mark.parametrize("name", ["serving-tide", "slices", "spot-training"])
def test_what_is_predicted_wins_when_it_is_replayed(name: str):
    """Every fix of an example that claims a win lowers the price of a useful hour, by as much as
    was claimed or more. (All examples, the demo and generated fleets: ``python -m bench fixes``.)
    """
    path = EXAMPLES / f"{name}.toml"
    text = path.read_text(encoding="utf-8")
    statement = replay.run(text, path.name)
    before = replay.outcome(statement)
    claimed = [r for r in leaks.to_try(statement) if r.wins_usd_micro is not None]
    assert claimed
    for remedy in claimed:
        after = replay.replay(edits.apply(text, remedy.fix.edits), path.name)
        change = verdict.change_ppm(before, after)
        assert change is not None
        assert change < 0, remedy.fix.words


def test_advice_keeps_what_wins_and_says_what_does_not():
    """A fleet four times too large: its contract is cut, the replay confirms the prediction, and
    the spec that is written has the cut and still runs.
    """
    found = trials.advise(TINY, "tiny.toml")
    (winner,) = [trial for trial in found.trials if trial.verdict == "wins"]
    assert len(winner.changes_ppm) == len(found.seeds) == trials.SEEDS
    assert found.seeds[0] == 2, "the seed of the spec comes first"
    assert winner.edits[0].place == ("contract", "h100", "count")
    assert winner.after is not None
    assert winner.predicted_usd_micro_per_useful_hour is not None
    assert winner.after.usd_micro_per_useful_hour == pytest.approx(
        winner.predicted_usd_micro_per_useful_hour, rel=0.02
    )
    text, kept, best = trials.together(TINY, "tiny.toml", found)
    assert kept == (winner,)
    assert best == winner.after
    assert fleet_spec.parse(text, "made.toml").contracts[0].count == winner.edits[0].value


def test_a_maximum_quota_is_raised_in_the_word_of_the_guide_and_replayed():
    """To no more than there is; what was replayed is not also listed as not replayed."""
    crowded = TINY.replace("count = 64", "count = 16").replace(
        'name = "a"', 'name = "a"\nmaximum = { H100 = 6 }', 1
    )
    found = trials.advise(crowded, "crowded.toml")
    (raised,) = [trial for trial in found.trials if trial.edits[0].table == "team"]
    assert raised.edits[0].field == "maximum.H100"
    assert 6 < int(raised.edits[0].value) <= 16
    assert raised.after is not None, raised.refused
    assert raised.leak not in {leak for leak, *_ in found.untried}


def test_a_change_of_the_work_is_not_judged():
    """Gangs drawn by chance are cut to their team's maximum quota: a raise makes jobs larger. The
    larger work counted as more useful hours, and so as a win; now it is said and not judged.
    """
    capped = (
        TINY.replace("count = 64", "count = 32")
        .replace('name = "a"', 'name = "a"\nmaximum = { H100 = 6 }', 1)
        .replace("4 = 0.5", "8 = 0.5")
    )
    found = trials.advise(capped, "capped.toml")
    (raised,) = [trial for trial in found.trials if trial.edits[0].table == "team"]
    assert raised.after is None
    assert "not the same work" in raised.refused
    assert raised.verdict == "no clear difference"


def test_a_smaller_contract_leaves_the_gangs_as_they_are():
    """Hot spares take no work: twice the largest gang must fit beside them, or the replay of the
    smaller fleet draws smaller gangs.
    """
    spared = TINY.replace("count = 64", "count = 64\nspares = 2").replace("4 = 0.5", "16 = 0.1")
    statement = replay.run(spared, "spared.toml")
    before = replay.outcome(statement)
    smaller = [r.fix.edits for r in leaks.to_try(statement) if r.fix.edits[0].field == "count"]
    assert smaller
    for edited in smaller:
        after = replay.replay(edits.apply(spared, edited), "spared.toml")
        assert after.is_same_work(before), edited


def test_processes_give_the_same():
    """Two processes find what one finds, in the same order; what cannot be run says why."""
    changes = [
        trials.SpecChange(TINY, (Edit("contract", "h100", "count", 56),)),
        trials.SpecChange(TINY, (Edit("contract", "h100", "count", 48),), seed=7),
        trials.SpecChange(TINY, (Edit("contract", "h100", "count", 50),)),
    ]
    one, two = (trials.tried(changes, "tiny.toml", workers) for workers in (1, 2))
    assert one[:2] == two[:2]
    assert str(one[2]) == str(two[2])
    assert "not whole nodes" in str(one[2]) or "50" in str(one[2])


def test_another_seed_is_another_story():
    """The same spec with another seed meets other jobs; what it is paid is the same."""
    own, other = replay.replay(TINY, "tiny.toml", 2), replay.replay(TINY, "tiny.toml", 3)
    assert own == replay.replay(TINY, "tiny.toml")
    assert own.paid_usd_micro == other.paid_usd_micro
    assert own.useful_milli_ms != other.useful_milli_ms


def test_what_one_seed_alone_shows_is_no_win_within_the_noise():
    """+0.15 % on one seed counted as a win, although 2 % are noise on 64 GPUs."""
    assert verdict.of([-1_500]) == "no clear difference"
    assert verdict.of([-19_000]) == "no clear difference"
    assert verdict.of([-21_000]) == "wins"
    assert verdict.of([21_000]) == "loses"
    assert verdict.of([]) == "no clear difference"


def test_a_win_is_cheaper_on_every_seed_and_by_more_than_they_differ():
    """One seed that is dearer, or differences that scatter as widely as their mean, are no win;
    a small difference that every seed shows alike is one.
    """
    assert verdict.of([-30_000, -30_000, 1_000]) == "no clear difference"
    assert verdict.of([-31_000, -2_000, -1_000]) == "no clear difference"
    assert verdict.of([-5_000, -6_000, -5_500]) == "wins"
    assert verdict.of([5_000, 6_000, 5_500]) == "loses"
    assert verdict.of([-900, -900, -900]) == "no clear difference", "too little to be worth it"


def test_of_changes_without_effect_one_in_twenty_is_called_a_win():
    """As the documentation says; by sign alone, it would be one in eight."""
    luck = Random(0)
    called = [
        verdict.of([round(luck.gauss(0, 10_000)) for _ in range(3)]) == "wins" for _ in range(2_000)
    ]
    assert 0.03 < sum(called) / len(called) < 0.07
