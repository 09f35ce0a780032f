"""Fixes: do the claims of the ledger and the wins of ``advise`` hold on fleets never looked at?

The rule of the split, and nothing else decides (``is_held_out``): the constants of
``ledger/prices``, ``ledger/release`` and ``ledger/saving`` were fitted by looking at the
examples, the demo, and generated fleets with a seed below ``HELD_OUT_FROM``. Everything generated
from a seed at or above it is held out: nobody may choose a constant after looking at one. Whoever
did moves ``HELD_OUT_FROM`` above every seed that was looked at, and measures again; otherwise the
figures are of fitted fleets. Figures are reported of held-out fleets only.

Two questions for each of them:

- *claims* (what ``tidemill ledger`` predicts without a replay): is a useful hour cheaper in a
  replay of the same seed with the change, and what is the verdict over three seeds?
- *wins* (what ``tidemill advise`` calls a win after three seeds): is a useful hour cheaper, on
  average over as many fresh seeds that the verdict never saw?
"""

import json
import sys
from random import Random
from statistics import fmean
from typing import Any

from tidemill.advise import edits, replay, trials, verdict
from tidemill.advise.trials import Advice, Trial
from tidemill.twin.spec import template

HELD_OUT_FROM = 100
FLEETS = 8
FRESH = 1_000  # added to a fleet's seed: far from those that the verdict used


def is_held_out(seed: int) -> bool:
    """Whether the generated fleet of this seed was kept away from whoever chose the constants."""
    return seed >= HELD_OUT_FROM


def run(fleets: int = FLEETS) -> dict[str, Any]:
    """Every change that is proposed for some held-out fleets."""
    seeds = range(HELD_OUT_FROM, HELD_OUT_FROM + fleets)
    assert all(is_held_out(seed) for seed in seeds)
    found = {f"generated-{seed}": _fleet(seed) for seed in seeds}
    rows = [row for fleet in found.values() for row in fleet["trials"]]
    return {"fleets": found, "held_out": _counts(rows)}


def generated(seed: int) -> str:
    """A small fleet for two days; its size, its teams and its load follow from the seed.

    Small and short, since every fleet is replayed some thirty times.
    """
    luck = Random(seed)
    text = template.describe(
        seed=seed,
        accelerators=luck.choice((48, 64)),
        weeks=1,
        teams=luck.choice((1, 2)),
        load=luck.choice((0.4, 0.55, 0.7)),
    )
    return text.replace('horizon = "1w"', 'horizon = "2d"')


def _fleet(seed: int) -> dict[str, Any]:
    text = generated(seed)
    advice = trials.advise(text, f"generated-{seed}")
    before = advice.before
    found = {
        "usd_per_useful_hour": _usd(before.usd_micro_per_useful_hour),
        "wait_h_mean": _hours(before.wait_ms_mean),
        "trials": [_row(text, advice, trial, seed) for trial in advice.trials],
    }
    print(f"  {seed}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


def _row(text: str, advice: Advice, trial: Trial, seed: int) -> dict[str, Any]:
    after = trial.after
    is_win = trial.verdict == "wins"
    return {
        "edits": [edit.text for edit in trial.edits],
        "is_claimed": trial.predicted_usd_micro is not None,
        "before": _usd(advice.before.usd_micro_per_useful_hour),
        "predicted": _usd(trial.predicted_usd_micro_per_useful_hour),
        "achieved": _usd(after.usd_micro_per_useful_hour) if after else trial.refused,
        "by_seed_percent": _percent(trial.changes_ppm),
        "fresh_percent": _percent(_fresh(text, trial, seed)) if is_win else [],
        "wait_h_mean": _hours(after.wait_ms_mean) if after else None,
        "verdict": trial.verdict,
    }


def _fresh(text: str, trial: Trial, seed: int) -> list[int]:
    """What a win comes to with seeds that its verdict never saw."""
    edited, found = edits.apply(text, trial.edits), []
    for other in range(seed + FRESH, seed + FRESH + trials.SEEDS):
        before, after = (replay.replay(made, "fresh", other) for made in (text, edited))
        change = verdict.change_ppm(before, after)
        assert change is not None
        found.append(change)
    return found


def _counts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """How many claims and how many wins held, of how many."""
    claims = [row for row in rows if row["is_claimed"]]
    wins = [row for row in rows if row["verdict"] == "wins"]
    return {
        "claims cheaper with the same seed": _of(claims, lambda r: r["by_seed_percent"][0] < 0),
        "claims that win over three seeds": _of(claims, lambda r: r["verdict"] == "wins"),
        "claims that lose": _of(claims, lambda r: r["verdict"] == "loses"),
        "wins cheaper on fresh seeds": _of(wins, lambda r: fmean(r["fresh_percent"]) < 0),
        "changes tried": str(len(rows)),
    }


def _of(rows: list[dict[str, Any]], holds: Any) -> str:  # noqa: ANN401 - a row to a bool
    return f"{sum(holds(row) for row in rows)} of {len(rows)}"


def _percent(changes_ppm: list[int] | tuple[int, ...]) -> list[float]:
    return [round(change / 10_000, 2) for change in changes_ppm]


def _usd(usd_micro: int | None) -> float | None:
    return None if usd_micro is None else round(usd_micro / 1e6, 3)


def _hours(ms: int | None) -> float | None:
    return None if ms is None else round(ms / 3_600_000, 2)
