"""Which load of a service a metric is: the names that serving engines give requests and latencies.

The table is ``load_metrics.csv``: one row per name, with its form (a counter, a gauge, a histogram
of which the series end in ``_bucket``), what labels it must have to be meant (names without a
prefix may be anybody's), what a bound of a bucket is multiplied by to be seconds, and where the
name is documented. Of several names of one quantity in one service the lowest rank wins.
"""

import csv
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class LoadQuantity(StrEnum):
    """What can be known of the load of a service."""

    REQUESTS = "requests"
    TOKENS_IN = "tokens_in"
    TOKENS_OUT = "tokens_out"
    RUNNING = "running"
    WAITING = "waiting"
    FIRST_TOKEN = "first_token"
    BETWEEN_TOKENS = "between_tokens"
    WHOLE = "whole"


LOAD_MEANING = {
    LoadQuantity.REQUESTS: "requests that ended",
    LoadQuantity.TOKENS_IN: "tokens of prompts",
    LoadQuantity.TOKENS_OUT: "tokens that were generated",
    LoadQuantity.RUNNING: "requests that are run",
    LoadQuantity.WAITING: "requests that wait to be run",
    LoadQuantity.FIRST_TOKEN: "time to the first token: histogram",
    LoadQuantity.BETWEEN_TOKENS: "time from token to token: histogram",
    LoadQuantity.WHOLE: "time of a whole request: histogram",
}


class MetricForm(StrEnum):
    """What the values of a metric are."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class LoadMetric(NamedTuple):
    """A name under which an engine gives a quantity."""

    quantity: LoadQuantity
    rank: int
    form: MetricForm
    metric: str
    matching: str
    """What its labels must match, as PromQL writes it; empty: anything."""
    scale: float
    engine: str
    source: str

    @property
    def series(self) -> str:
        """The name of its series."""
        return f"{self.metric}_bucket" if self.form is MetricForm.HISTOGRAM else self.metric


@cache
def load_table() -> tuple[LoadMetric, ...]:
    """All names, best first within each quantity."""
    text = files(__package__).joinpath("load_metrics.csv").read_text(encoding="utf-8")
    rows = [
        LoadMetric(
            LoadQuantity(row["quantity"]), int(row["rank"]), MetricForm(row["form"]),
            row["metric"], row["matching"], float(row["scale"]), row["engine"], row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (list(LoadQuantity).index(row.quantity), row.rank)))
