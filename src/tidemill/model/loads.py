"""What a job did, stretch by stretch: the requests of a service, the steps of a training loop.

All amounts of a stretch add up with those of others: counts, and levels as what they add up to over
time (two requests that wait for ten milliseconds are 20 request-milliseconds). Latencies are counts
of requests, or of tokens, by the bucket of a histogram that they fell into. Quantiles do not add
up, so none is ever kept: they are read from the counts of as many stretches as are asked for.

Journals and hourly books keep the numbers of these figures: new ones go to the end.
"""

from enum import IntEnum
from typing import Final


class LoadFigure(IntEnum):
    """What was measured of a stretch that begins with the event."""

    SEEN_MS = 0
    """How long the stretch is: all of it was seen."""
    REQUESTS = 1
    """Requests that ended in it."""
    TOKENS_IN = 2
    """Tokens of prompts."""
    TOKENS_OUT = 3
    """Tokens that were generated."""
    GAUGED_MS = 4
    """How long it is known how many requests waited and ran."""
    WAITING_MS = 5
    """Requests that waited to be run, times how long."""
    RUNNING_MS = 6
    """Requests that were run, times how long."""
    TOKENED_MS = 7
    """How long tokens were counted."""
    STEPPED_MS = 8
    """How long the steps of a training loop were counted: all of it was seen."""
    STEPS = 9
    """Steps that ended, as the first of its ranks counts them."""
    TRAINED_TOKENS = 10
    """Tokens in the steps of all ranks."""
    TRAINED_TOKENED_MS = 11
    """How long those were counted."""
    SAMPLES = 12
    """Samples in the steps of all ranks."""
    SAMPLED_MS = 13
    """How long those were counted."""


LENGTHS: Final = frozenset({
    LoadFigure.SEEN_MS, LoadFigure.TOKENED_MS, LoadFigure.STEPPED_MS,
    LoadFigure.TRAINED_TOKENED_MS, LoadFigure.SAMPLED_MS,
})  # fmt: skip
"""Figures that are a length of time: what was held in it is known."""
TRAINING: Final = LoadFigure.STEPPED_MS
"""The first figure of training loops; those below are of services."""


class LatencyFigure(IntEnum):
    """What took so long."""

    FIRST_TOKEN = 0
    """From the arrival of a request to its first token."""
    BETWEEN_TOKENS = 1
    """From one token of a request to the next."""
    WHOLE = 2
    """From the arrival of a request to its end."""


class LoadSource(IntEnum):
    """Who measured it."""

    ENGINE = 0
    """The serving engine, by the metrics that a Prometheus scraped from it."""
    TRACK = 1
    """The service itself (``tidemill.track``)."""


NO_BOUND_US: Final = 2**52
"""The upper bound of the last bucket of a histogram, which has none."""
