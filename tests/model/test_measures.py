"""Durations, dollars and exact division."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import measures
from tidemill.model.measures import (
    DAY_MS,
    HOUR_MS,
    LONGEST_MS,
    MINUTE_MS,
    SECOND_MS,
    count_text,
    decimal_number,
    dollars_text,
    duration_ms,
    duration_text,
    share_out,
    whole_number,
)

UNITS = {"w": 7 * DAY_MS, "d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": SECOND_MS, "ms": 1}


@given(st.dictionaries(st.sampled_from(list(UNITS)), st.integers(0, 999), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(counts: dict[str, int]):
    """`1h30m` is an hour and thirty minutes, with or without a space between."""
    text = " ".join(f"{counts[unit]}{unit}" for unit in UNITS if unit in counts)
    assert duration_ms(text) == sum(count * UNITS[unit] for unit, count in counts.items())
    assert duration_ms(text.replace(" ", "")) == duration_ms(text)


@pytest.mark.parametrize(
    "text",
    [
        "1d1d",
        "30m1h",
        "1M",
        "\uff11h",
        "1_0h",
        "",
        "h",
        "1h30",
        "-1h",
        "9" * 400 + "s",
        "101y",
        "1h\n",
    ],
)
def test_what_nobody_means_is_not_a_duration(text: str):
    """A unit twice, units in the wrong order, months, other digits and a missing unit."""
    with pytest.raises(ValueError, match="is "):
        duration_ms(text)


@pytest.mark.parametrize(
    "text", ["1_0", "\uff11\uff10", "inf", "nan", "1e999", "0x10", "", " ", "1,5", "--1"]
)
def test_what_nobody_means_is_not_a_number(text: str):
    """Python would read some of these as numbers; people do not mean them."""
    for read in (whole_number, decimal_number):
        with pytest.raises(ValueError, match="is not a"):
            read(text)


@given(st.text(max_size=12) | st.from_regex(r"[0-9_.eE+-]{1,12}", fullmatch=True))
def test_any_text_is_a_number_or_a_value_error(text: str):
    """Whatever is typed, the answer is a finite number or a ValueError."""
    for read in (whole_number, decimal_number, duration_ms):
        try:
            assert abs(read(text)) < float("inf")
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("text", "ms"), [("1.5h", 90 * MINUTE_MS), ("0.001s", 1), ("2y", 730 * DAY_MS), ("0s", 0)]
)
def test_fractions_and_years(text: str, ms: int):
    """A part may have decimals; a year has 365 days."""
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "h", "5x", "-5m", "5m?", "1h and 5m", "5 5m", "1e3s"])
def test_what_is_not_a_duration_is_refused(text: str):
    """Anything else raises, and the message repeats it."""
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms(text)


@given(st.integers(0, 23), st.sampled_from(["d", "h", "m", "s"]), st.integers(0, 23))
def test_two_neighbouring_units_round_trip(large: int, unit: str, small: int):
    """A duration of at most two neighbouring units is written so that it reads back the same."""
    below = {"d": HOUR_MS, "h": MINUTE_MS, "m": SECOND_MS, "s": 0}[unit]
    ms = large * UNITS[unit] + small * below
    assert duration_ms(duration_text(ms)) == ms


@given(st.integers(-LONGEST_MS, LONGEST_MS))
def test_what_is_written_is_short_by_less_than_its_smallest_unit(ms: int):
    """Longer durations lose only what is below the second unit, and never grow."""
    text = duration_text(ms)
    back = duration_ms(text.removeprefix("-"))
    largest = next((u for u in UNITS.values() if u <= abs(ms) and u != 7 * DAY_MS), 1)
    assert text.startswith("-") == (ms < 0)
    assert 0 <= abs(ms) - back <= largest


@pytest.mark.parametrize(
    ("usd_micro", "places", "text"),
    [
        (1_234_567_890_000, 2, "$1,234,567.89"),
        (-5_000, 2, "-$0.01"),
        (-4_999, 2, "$0.00"),
        (1_500_000, 0, "$2"),
        (0, 2, "$0.00"),
    ],
)
def test_dollars_are_rounded_half_up(usd_micro: int, places: int, text: str):
    """Micro-dollars are written with separators; a rounded zero has no sign."""
    assert dollars_text(usd_micro, places) == text


@given(st.integers(-(10**18), 10**18), st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
def test_parts_add_up_to_the_total(total: int, weights: list[int]):
    """What is shared out adds up exactly, and no part is off its exact share by one or more."""
    if not any(weights):
        assert share_out(0, weights) == [0] * len(weights)
        return
    parts = share_out(total, weights)
    assert sum(parts) == total
    weight = sum(weights)
    for part, own in zip(parts, weights, strict=True):
        assert abs(part * weight - total * own) < weight


def test_ties_go_to_the_earlier_part():
    """Equal remainders are served from the front."""
    assert share_out(5, [1, 1, 1]) == [2, 2, 1]


def test_something_cannot_be_divided_among_nothing():
    """A total without weights is a mistake of the caller."""
    with pytest.raises(AssertionError, match="among nothing"):
        share_out(1, [0, 0])


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "1 GPU"), (0, "0 GPUs"), (2_000, "2,000 GPUs"), (np.int64(1_234_567), "1,234,567 GPUs"),
     (0.5, "0.5 GPUs"), (1.0, "1 GPU"), (12.25, "12.25 GPUs")],
)  # fmt: skip
def test_a_number_of_things_is_one_or_many(count: float, words: str):
    """Whole numbers with separators, whoever counted them; parts as they are."""
    assert count_text(count, "GPU") == words


def test_a_count_agrees_with_its_noun():
    """One is singular, everything else plural, parts too; large numbers have all their digits."""
    assert [measures.count_text(n, "job") for n in (0, 1, 2_000)] == [
        "0 jobs",
        "1 job",
        "2,000 jobs",
    ]
    assert measures.count_text(2, "query") == "2 queries"
    assert measures.amount_text(1_000, "GPU") == "1 GPU"
    assert measures.amount_text(500, "GPU") == "0.5 GPUs"
    assert measures.amount_text(1_234_567_500, "core") == "1,234,567.5 cores"
    assert measures.clause_text(1, "pods have claims of it") == "1 pod has claims of it"
    assert measures.clause_text(2, "pods request it too") == "2 pods request it too"


def test_more_than_the_books_count_is_said_so():
    """Nobody has 100 million cores: above that the number is told in words."""
    assert measures.cores_text(96_000) == "96"
    assert measures.cores_text(measures.MOST_OF_HOST) == "at least 100 million"
    assert measures.gib_text(measures.MOST_OF_HOST) == "at least 97 million"
