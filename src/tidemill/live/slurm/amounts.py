"""Amounts of things: counts with suffixes, memory, TRES and GRES texts, and the GPUs in them.

TRES count what is tracked over a whole job or node: `cpu=8,gres/gpu:h100=2,gres/gpu=2,mem=64G`.
GRES say what one node has or gives: `gpu:h100:8(IDX:0-3,5)`. A cluster that does not list
`gres/gpu` in `AccountingStorageTRES` prints TRES without GPUs also for jobs that have some, so a
text that names no GPU means *unknown*, not zero.
"""

import re
from functools import lru_cache
from typing import NamedTuple

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None"})
MEMORY_LIKE = frozenset({"mem", "vmem", "bb"})
"""TRES that are amounts of memory: printed with a suffix, in MiB without one."""

_COUNT = re.compile(r"(\d+)(?:\.(\d+))?([KMGTP]?)")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([nc]?)")
_GRES = re.compile(
    r"(?:gres[:/])?(?P<name>[^:()=/]+)(?:[:=](?P<rest>[^()]*))?(?P<notes>(?:\(.*\))?)"
)
_INDEX = re.compile(r"\(IDX:([0-9,-]*)\)")


class Gres(NamedTuple):
    """So many of one generic resource on a node; ``devices`` where Slurm says which."""

    name: str
    type: str | None
    number: int
    devices: tuple[int, ...] | None = None


class GpuCount(NamedTuple):
    """How many GPUs, and of which type; both None where a text says nothing about GPUs."""

    number: int | None
    type: str | None


UNKNOWN_GPUS = GpuCount(None, None)


def count(text: str) -> int:
    """A number with a suffix K, M, G, T or P (powers of 1024, as Slurm counts)."""
    found = _COUNT.fullmatch(text)
    if not found:
        raise ValueError(f"`{text}` is no number")
    if len(text) > 24:
        raise ValueError(f"`{text[:24]}…` is too large")
    whole, fraction, unit = found[1], found[2] or "", UNITS[found[3]]
    total = int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
    if total >= 1 << 63:
        raise ValueError(f"`{text}` is too large")
    return total


def memory(text: str) -> int | None:
    """Bytes of `64G`, `4000Mn` (a node), `2Gc` (a CPU), `512` (MiB). None: not told."""
    if text in NOTHING:
        return None
    found = _MEMORY.fullmatch(text)
    if not found:
        raise ValueError(f"`{text}` is no amount of memory such as 64G")
    return count(found[1] + (found[2] or "M"))


@lru_cache(maxsize=4096)
def tres(text: str) -> tuple[tuple[str, int], ...] | None:
    """Name and amount of each TRES, in the order printed; memory in bytes. None: not told."""
    if text in NOTHING:
        return None
    return tuple(_tres(entry) for entry in text.split(","))


def _tres(entry: str) -> tuple[str, int]:
    name, equals, amount = entry.partition("=")
    if not equals or not name:
        raise ValueError(f"`{entry}` is no TRES such as gres/gpu=8")
    if name in MEMORY_LIKE:
        found = memory(amount)
        if found is None:
            raise ValueError(f"`{entry}` has no amount")
        return name, found
    return name, count(amount)


@lru_cache(maxsize=4096)
def tres_gpus(text: str) -> GpuCount:
    """The GPUs in a text of TRES. Several types are joined by commas."""
    amounts = tres(text)
    if amounts is None:
        return UNKNOWN_GPUS
    typed = {name[9:]: n for name, n in amounts if name.startswith("gres/gpu:")}
    whole = dict(amounts).get("gres/gpu")
    if whole is None and not typed:
        return UNKNOWN_GPUS
    total = sum(typed.values()) if whole is None else whole
    return GpuCount(total, ",".join(sorted(typed)) or None)


@lru_cache(maxsize=4096)
def gres(text: str) -> tuple[Gres, ...] | None:
    """Each generic resource of a node or of a request: `gpu:h100:8(IDX:0-3,5),shard:32`."""
    if text in NOTHING:
        return None
    return tuple(_gres(entry) for entry in re.split(r",(?![^(]*\))", text))


def _gres(entry: str) -> Gres:
    found = _GRES.fullmatch(entry)
    if not found:
        raise ValueError(f"`{entry}` is no GRES such as gpu:h100:8")
    kind, _, number = (found["rest"] or "").rpartition(":")
    if number and not number[0].isdigit():  # `gpu:h100`: a type without a count
        kind, number = number, ""
    return Gres(
        found["name"],
        kind or None,
        count(number) if number else 1,
        _index(found["notes"]),
    )


def _index(notes: str) -> tuple[int, ...] | None:
    found = _INDEX.search(notes)
    if not found or not found[1]:
        return None
    return tuple(
        number for piece in found[1].split(",") for number in _numbers(*piece.partition("-")[::2])
    )


def _numbers(first: str, last: str) -> range:
    low, high = int(first), int(last or first)
    if high - low > 4096:
        raise ValueError(f"`{first}-{last}` is no range of devices on a node")
    return range(low, high + 1)


@lru_cache(maxsize=4096)
def gres_gpus(text: str) -> GpuCount:
    """The GPUs in a text of GRES, which is about one node. Without an entry for GPUs: zero.

    Unlike TRES, GRES of a node are all listed. An empty text is *not told*.
    """
    found = gres(text)
    if found is None:
        return UNKNOWN_GPUS
    gpus = [entry for entry in found if entry.name == "gpu"]
    types = sorted({entry.type for entry in gpus if entry.type})
    return GpuCount(sum(entry.number for entry in gpus), ",".join(types) or None)
