"""Units of measure: every quantity in Tidemill is an integer in one of these.

Time is milliseconds since the start of the story, accelerators are milli-units (1000 is one whole
device), money is micro-dollars, shares are parts per million. This module names the constants and
turns the words people type (``14d``, ``1h30m``) into integers and back.
"""

import re
from collections.abc import Sequence
from math import isfinite, nan

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
YEAR_MS = 365 * DAY_MS
_BINS_AT_MOST = 400

WHOLE_MILLI = 1_000
MOST_OF_HOST = 10**11
"""CPU (milli-cores) or memory (MiB) as the books have it of pods, jobs and nodes that say more: 100
PB are more than any has, and all pods of the largest gang together can still be counted."""
ONE_PPM = 1_000_000
MILLION = 1_000_000
GIB_MIB = 1024
DOLLAR_MICRO = 1_000_000

FOREVER_MS = 2**62  # later than any event; leaves room to add to it without overflow

MILLI_MS_PER_UNIT_HOUR = WHOLE_MILLI * HOUR_MS

_UNIT_MS = {
    "ms": 1,
    "s": SECOND_MS,
    "m": MINUTE_MS,
    "h": HOUR_MS,
    "d": DAY_MS,
    "w": WEEK_MS,
    "y": YEAR_MS,
}
LONGEST_MS = 100 * YEAR_MS
"""Of any duration that somebody writes."""
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?(ms|s|m|h|d|w|y)")
_PARTS = re.compile(rf" ?{_PART.pattern}(?: ?{_PART.pattern})* ?")
_MOST_DIGITS = 18
_WHOLE = re.compile(rf"[+-]?[0-9]{{1,{_MOST_DIGITS}}}")
_LONG = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?"
)


def whole_number(text: str) -> int:
    """Read a whole number in plain digits; ValueError on ``1_0``, full-width digits and words."""
    if not _WHOLE.fullmatch(text.strip(" ")):
        if _LONG.fullmatch(text.strip(" ")):
            raise ValueError(
                f"`{text}` has more digits than the {_MOST_DIGITS} that are read here; give less"
            )
        raise ValueError(f"`{text}` is not a whole number; write it in digits")
    return int(text)


def decimal_number(text: str) -> float:
    """Read a finite number in plain digits; ValueError on ``1_0``, ``inf``, ``nan`` and words."""
    found = float(text) if _NUMBER.fullmatch(text.strip(" ")) else nan
    if not isfinite(found):
        raise ValueError(f"`{text}` is not a number; write it in digits")
    return found


def duration_ms(text: str) -> int:
    """Read ``14d``, ``1h30m`` or ``250ms``; raise ValueError on anything else.

    Units go from large to small, each at most once. A capital M is refused: it may mean months.
    """
    words = text.lower()
    parts = _PART.findall(words)
    sizes = [_UNIT_MS[unit] for _, unit in parts]
    if not _PARTS.fullmatch(words) or "M" in text or sizes != sorted(set(sizes), reverse=True):
        raise ValueError(f"`{text}` is not a duration")
    total = sum(_part_ms(number, unit) for number, unit in parts)
    if total > LONGEST_MS:
        raise ValueError(f"`{text}` is longer than 100 years")
    return total


def duration_text(ms: int) -> str:
    """Write milliseconds in the two largest units that matter: ``3d 4h``, ``12m``, ``0s``."""
    if ms < 0:
        return "-" + duration_text(-ms)
    if ms < SECOND_MS:
        return f"{ms}ms" if ms else "0s"
    words: list[tuple[int, str]] = []
    for unit in ("d", "h", "m", "s"):
        count, ms = divmod(ms, _UNIT_MS[unit])
        if count or words:
            words.append((count, unit))
        if len(words) == 2:
            break
    return " ".join(f"{count}{unit}" for count, unit in words if count)


def count_text(count: float, noun: str) -> str:
    """A number of things: ``1 job``, ``2,000 jobs``, ``0.5 GPUs``."""
    number = f"{count:,.3f}".rstrip("0") if count % 1 else f"{int(count):,}"
    return f"{number} {noun_text(count, noun)}"


def noun_text(count: float, noun: str) -> str:
    """A noun as it is said after a number: ``job`` after 1, ``jobs`` after every other."""
    return noun if count == 1 else f"{noun[:-1]}ies" if _ENDS_IN_Y.search(noun) else f"{noun}s"


def clause_text(count: int, clause: str) -> str:
    """A number, and what is said of so many: ``3 pods have claims``, ``1 pod has claims``; the
    clause is as of several, with the noun first and its verb near.
    """
    if count != 1:
        return f"{count:,} {clause}"
    nouns, *words = clause.split(" ")
    verb = next((i for i, word in enumerate(words[:_VERB_WITHIN]) if word in _OF_ONE), None)
    if verb is not None:
        words[verb] = _OF_ONE[words[verb]]
    return " ".join(("1", nouns.removesuffix("s"), *words))


_OF_ONE = {"are": "is", "have": "has", "do": "does", "request": "requests", "name": "names"}
"""Verbs that differ; those of the past do not."""
_VERB_WITHIN = 4
_ENDS_IN_Y = re.compile(r"[^aeiou]y$")


def milli_text(milli: int, per: int = WHOLE_MILLI) -> str:
    """Milli-units as a plain number, exactly: ``48``, ``0.5``, ``12,000``."""
    whole, rest = divmod(milli, per)
    digits = len(str(per)) - 1
    return f"{whole:,}" + (f".{rest:0{digits}d}".rstrip("0") if rest else "")


def cores_text(cpu_milli: int) -> str:
    """CPU as cores; of more than the books count, that: ``at least 100 million``."""
    if cpu_milli >= MOST_OF_HOST:
        return f"at least {cpu_milli // WHOLE_MILLI // MILLION} million"
    return milli_text(cpu_milli)


def gib_text(memory_mib: int) -> str:
    """Memory as GiB, to one place where it is not whole; of more than the books count, that."""
    if memory_mib >= MOST_OF_HOST:
        return f"at least {memory_mib // GIB_MIB // MILLION} million"
    tenths = memory_mib * 10 // GIB_MIB
    return f"{tenths // 10:,}" + (f".{tenths % 10}" if tenths % 10 else "")


def amount_text(milli: int, noun: str) -> str:
    """Milli-units of things: ``1 GPU``, ``0.5 GPUs``, ``12,000 cores``."""
    return f"{milli_text(milli)} {noun_text(milli / WHOLE_MILLI, noun)}"


UNKNOWN_DOLLARS = "unknown"


def dollars_text(usd_micro: int | None, places: int = 2) -> str:
    """Write micro-dollars as dollars, rounded half up, with thousands separators; None: unknown."""
    if usd_micro is None:
        return UNKNOWN_DOLLARS
    scale = 10 ** (6 - places)
    units = (abs(usd_micro) + scale // 2) // scale
    sign = "-" if usd_micro < 0 and units else ""
    whole, part = divmod(units, 10**places)
    return f"{sign}${whole:,}" + (f".{part:0{places}d}" if places else "")


def hourly_text(usd_micro_per_hour: int | None, known_usd_micro: int = 0) -> str:
    """``$2.50 an hour``, or that nobody said a price; of some of it: what is known at least."""
    if usd_micro_per_hour is None:
        if known_usd_micro:
            return f"≥ {dollars_text(known_usd_micro)} an hour"
        return "price unknown"
    return f"{dollars_text(usd_micro_per_hour)} an hour"


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Divide an integer in proportion to integer weights so that the parts add up to it exactly.

    Largest remainders: each part is the floor of its exact share, and what is left goes one by one
    to the largest remainders (ties to the earlier part). All weights zero gives all zeros, and then
    the total must be zero too.
    """
    weight = sum(weights)
    if weight == 0:
        assert total == 0, "cannot divide something among nothing"
        return [0] * len(weights)
    parts = [total * w // weight for w in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % weight), i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def nice_bin_ms(length_ms: int) -> int:
    """A round width that divides a window into some hundreds of bins."""
    if length_ms <= 0 or length_ms >= FOREVER_MS:
        return DAY_MS
    if length_ms < 2 * HOUR_MS:
        return MINUTE_MS
    for width in (HOUR_MS, 2 * HOUR_MS, 6 * HOUR_MS, DAY_MS):
        if length_ms // width <= _BINS_AT_MOST:
            return width
    return -(-length_ms // _BINS_AT_MOST // DAY_MS) * DAY_MS


def _part_ms(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    parts: int = 10 ** len(fraction)
    return int(whole) * _UNIT_MS[unit] + int(fraction or 0) * _UNIT_MS[unit] // parts
