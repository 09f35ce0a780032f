"""Rows of the catalogue. What nobody published is None, never zero.

Rates are dense (vendors often print those of sparse matrices, twice as high), in 10^12 operations
a second; bandwidths are in one direction (vendors often print both together).
"""

from typing import Annotated

from msgspec import Meta, Struct

Key = Annotated[str, Meta(min_length=1, max_length=100)]
Text = Annotated[str, Meta(max_length=2000)]
Amount = Annotated[float, Meta(gt=0, le=1e12)]
Some = Annotated[int, Meta(ge=1, le=1_000_000)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One accelerator: what the scheduler counts as one device."""

    key: Key
    vendor: Text
    model: Text
    form: Text = ""
    arch: Text = ""
    released: Text = ""
    memory_gb: Amount
    """In 10^9 bytes, as vendors print it."""
    memory_type: Text = ""
    memory_tb_s: Amount
    bf16_tflops: Amount | None = None
    """FP16 tensor rate on parts without BF16."""
    tf32_tflops: Amount | None = None
    fp8_tflops: Amount | None = None
    fp4_tflops: Amount | None = None
    int8_tops: Amount | None = None
    fp32_tflops: Amount | None = None
    """Vector rate, without tensor cores."""
    sparse_factor: Annotated[int, Meta(ge=1, le=2)] = 1
    """2 where tensor cores skip zeros of 2:4 sparse matrices."""
    link: Text = ""
    link_gb_s: Amount | None = None
    """Of the scale-up link, one direction, all its ports together."""
    domain: Some = 1
    """How many parts the scale-up link joins."""
    power_w: Amount | None = None
    power_term: Text = ""
    reached_bf16_tflops: Amount | None = None
    """The best that a search over matrix sizes measured."""
    source: Text = ""
    confidence: Text = ""
    note: Text = ""
