"""The step-time model against published training runs: the error of every row, mean and worst."""

from typing import Any

from bench.step_rows import Row, rows
from tidemill.units.step import unchecked


def run() -> dict[str, Any]:
    """Predict every run; nothing is fitted here."""
    found = [(row, error(row)) for row in rows()]
    groups = sorted({row.group for row, _ in found})
    held = [e for row, e in found if not row.is_calibration]
    calibrated = [e for row, e in found if row.is_calibration]
    return {
        "calibration": summary(calibrated),
        "held_out": summary(held),
        "groups": {
            g: summary([e for row, e in found if row.group == g and not row.is_calibration])
            for g in groups
        },
        "rows": [
            {
                "group": row.group,
                "run": row.name,
                "seconds": round(row.seconds, 3),
                "model_s": round(row.seconds * (1 + e), 3),
                "error_pct": round(100 * e, 2),
                "calibration": row.is_calibration,
                "source": row.source,
            }
            for row, e in found
        ],
    }


def error(row: Row) -> float:
    """By how much the model is above the published time, as a share of it."""
    return unchecked(row.run).seconds / row.seconds - 1


def summary(errors: list[float]) -> dict[str, float]:
    """Mean and worst of the errors, in percent, whichever way they are."""
    sizes = [100 * abs(e) for e in errors]
    if not sizes:
        return {"rows": 0}
    return {"rows": len(sizes), "mean_pct": round(sum(sizes) / len(sizes), 2),
            "worst_pct": round(max(sizes), 2)}  # fmt: skip
