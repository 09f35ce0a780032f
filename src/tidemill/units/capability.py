"""Capability: dense BF16 TFLOP/s of common accelerators, to add unlike ones up.

A fleet of 256 A100 and 768 H100 is not 1,024 of anything; in H100 equivalents it is 849. Figures
are those of the catalogue: dense (vendors often print sparse ones, twice as high); parts without
BF16 stand with their FP16 rate. A kind that is not in the catalogue has unknown capability, which
is never taken as zero. An instance that is counted by itself has its share of the compute slices.
"""

import re
from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from tidemill.units.catalogue.book import Catalogue, plain
from tidemill.units.mig import geometry as mig

REFERENCE = "H100"
_INSTANCE = re.compile(r"(?P<part>.+)-(?P<slices>\d+)g\.\d+gb(\+me)?", re.IGNORECASE)

BF16_DENSE_GFLOPS: dict[str, int] = {
    name.upper(): round(part.bf16_tflops * 1000)
    for part in Catalogue().parts.values()
    if part.bf16_tflops is not None
    for name in part.names
}

_PART = re.compile(
    r"(?:(?P<slices>\d+)G\.(?P<gb>\d+)GB(?:\+ME)?|1/(?P<shares>\d+)) OF (?P<whole>.+)",
    re.IGNORECASE,
)
"""How the books call what is given out of a GPU: a MIG instance, or one of several shares."""

_BOOK = Catalogue()
_DOMAINS = {
    "nvidia.com": "NVIDIA", "amd.com": "AMD", "google.com": "Google", "cloud-tpus.google.com":
    "Google", "aws.amazon.com": "AWS", "habana.ai": "Intel", "gpu.intel.com": "Intel",
}  # fmt: skip
"""By the domain of a resource of Kubernetes: whose devices it counts."""

REFERENCE_GFLOPS = BF16_DENSE_GFLOPS[REFERENCE]


def gflops(kind: str) -> int | None:
    """Dense BF16 GFLOP/s of a kind (``H100``, ``NVIDIA-H100-80GB-HBM3``, ``H100_1G.10GB``).

    None: it is unknown.
    """
    name = plain(kind).upper()
    if cut := _INSTANCE.fullmatch(name):
        whole, geometry = gflops(cut["part"]), mig.of_kind(cut["part"])
        if whole is None or geometry is None:
            return None
        return whole * int(cut["slices"]) // geometry.compute
    if name in BF16_DENSE_GFLOPS:
        return BF16_DENSE_GFLOPS[name]
    known = [k for k in BF16_DENSE_GFLOPS if name.startswith(k + "-")]
    return BF16_DENSE_GFLOPS[max(known, key=len)] if known else None


def vendor(kind: str) -> str:
    """Who makes accelerators of a kind, or a part of them (`1/4 OF L4`); "": unknown."""
    domain, _, _ = kind.partition("/")
    if domain in _DOMAINS:
        return _DOMAINS[domain]
    part = _BOOK.find(kind.rpartition(" OF ")[2])
    return "" if part is None else part.vendor


def may_replace(asked: Collection[str], kind: str, *, is_strict: bool) -> bool:
    """Whether programs for some kinds may run on another: of one vendor, as far as that is known.

    ``is_strict``: not on one of an unknown vendor, where that of what was asked is known.
    """
    mine, other = {vendor(one) for one in asked} - {""}, vendor(kind)
    return not mine or other in mine or (not other and not is_strict)


def is_part(kind: str) -> bool:
    """Whether it is given out of a GPU: a MIG instance, or a share."""
    return _PART.fullmatch(kind) is not None


def is_as_large(asked: Collection[str], kind: str) -> bool:
    """Whether one of a kind does for one of what was asked, where one of both is a part of a GPU.

    A part never does for a whole GPU. For a part does what has as much memory and, as far as that
    is known, as much compute; unknown memory is not taken as enough.
    """
    wholes = [one for one in asked if not is_part(one)]
    if wholes or not asked:
        return not is_part(kind)
    has = _size(kind)
    return has is not None and any(
        has.memory_gb >= one.memory_gb and (not has.gflops or has.gflops >= (one.gflops or 0))
        for one in map(_size, asked) if one is not None
    )  # fmt: skip


class _Size(NamedTuple):
    memory_gb: Fraction
    gflops: int | None


def _size(kind: str) -> _Size | None:
    """What one of a kind has; None: its memory is unknown."""
    cut = _PART.fullmatch(kind)
    if cut and cut["gb"]:
        compute = gflops(f"{cut['whole']}-{cut['slices']}g.{cut['gb']}gb")
        return _Size(Fraction(cut["gb"]), compute)
    part, count = _BOOK.find(cut["whole"] if cut else kind), int(cut["shares"]) if cut else 1
    if part is None or part.memory_gb is None:
        return None
    whole = gflops(cut["whole"] if cut else kind)
    return _Size(Fraction(part.memory_gb) / count, None if whole is None else whole // count)
