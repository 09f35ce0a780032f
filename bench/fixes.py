"""Fixes: every edit that is proposed for the demo, the examples and generated fleets, replayed.

The rules that claim a win without a replay were tuned on the examples with an odd place in the
alphabet (and looked at nowhere else): ``TUNED``. The even ones, the demo and five generated fleets
are held out. A claim holds if a useful hour costs less in the replay.
"""

from pathlib import Path
from typing import Any

from tidemill.advise import trials
from tidemill.advise.trials import Trial
from tidemill.twin import describe, spec

EXAMPLES = Path(__file__).parents[1] / "examples"
TUNED = frozenset(path.stem for path in sorted(EXAMPLES.glob("*.toml"))[::2])
SEEDS = (1, 2, 3, 4, 5)


def run(is_quick: bool = False) -> dict[str, Any]:
    """Every fleet, every change; quick: one example of each half."""
    paths = sorted(EXAMPLES.glob("*.toml"))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    if is_quick:
        texts = {name: texts[name] for name in ("serving-tide", "sharing-a-gpu")}
    else:
        texts |= {f"generated-{seed}": _generated(seed) for seed in SEEDS}
        texts["demo"] = spec.text_of(None)[0]
    found = {name: _fleet(name, text) for name, text in texts.items()}
    claims = {"tuned": _kept(found, is_tuned=True), "held_out": _kept(found, is_tuned=False)}
    return {"fleets": found, "claims": claims}


def _generated(seed: int) -> str:
    """A small fleet for four days: the week that is described costs a minute for each change."""
    text = describe.describe(seed=seed, accelerators=64, weeks=1, teams=2)
    return text.replace('horizon = "1w"', 'horizon = "4d"')


def _fleet(name: str, text: str) -> dict[str, Any]:
    advice = trials.advise(text, name)
    before = advice.before
    return {
        "is_tuned": name in TUNED,
        "usd_per_useful_hour": _usd(before.usd_micro_per_useful_hour),
        "wait_h_mean": _hours(before.wait_ms_mean),
        "trials": [_row(trial, trials.wins(before, trial.after)) for trial in advice.trials],
    }


def _row(trial: Trial, wins: bool) -> dict[str, Any]:
    after = trial.after
    return {
        "edits": [edit.text for edit in trial.edits],
        "is_claimed": trial.predicted_usd_micro is not None,
        "predicted": _usd(trial.predicted_usd_micro_per_useful_hour),
        "achieved": _usd(after.usd_micro_per_useful_hour) if after else trial.refused,
        "wait_h_mean": _hours(after.wait_ms_mean) if after else None,
        "wins": wins,
    }


def _kept(found: dict[str, dict[str, Any]], *, is_tuned: bool) -> str:
    """How many claims held, of how many."""
    claims = [
        row["wins"]
        for fleet in found.values()
        if fleet["is_tuned"] is is_tuned
        for row in fleet["trials"]
        if row["is_claimed"]
    ]
    return f"{sum(claims)} of {len(claims)}"


def _usd(usd_micro: int | None) -> float | None:
    return None if usd_micro is None else round(usd_micro / 1e6, 3)


def _hours(ms: int | None) -> float | None:
    return None if ms is None else round(ms / 3_600_000, 2)
