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
    names: tuple[Key, ...] = ()
    """What drivers and people call it, in lower case: `h100`, `a100-sxm4-80gb`."""
    form: Text = ""
    arch: Text = ""
    released: Text = ""
    memory_gb: Amount
    """In 10^9 bytes, as vendors print it."""
    memory_type: Text = ""
    memory_tb_s: Amount
    bf16_tflops: Amount | None = None
    """FP16 runs at the same rate. On parts without BF16 (`has_bf16` false): their FP16 rate."""
    has_bf16: bool = True
    has_fp16: bool = True
    tf32_tflops: Amount | None = None
    fp8_tflops: Amount | None = None
    fp4_tflops: Amount | None = None
    int8_tops: Amount | None = None
    fp32_tflops: Amount | None = None
    """Vector rate, without tensor cores."""
    sparse_factor: Annotated[int, Meta(ge=1, le=2)] = 1
    """2 where tensor cores skip zeros of 2:4 sparse matrices; FP4 has its own figure."""
    fp4_sparse_tflops: Amount | None = None
    link: Text = ""
    link_gb_s: Amount | None = None
    """Of the scale-up link, one direction, all its ports together."""
    domain: Some = 1
    """How many parts the scale-up link joins."""
    host_link: Text = ""
    host_link_gb_s: Amount | None = None
    """Between one part and its host, one direction."""
    power_w: Amount | None = None
    power_term: Text = ""
    reached_bf16_tflops: Amount | None = None
    """The best that a search over matrix sizes measured."""
    source: Text = ""
    confidence: Text = ""
    note: Text = ""


class Box(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine as it is rented or bought: parts with their host."""

    key: Key
    vendor: Text
    part: Key
    """The key of a part."""
    count: Some
    vcpu: Some | None = None
    """Hardware threads, as clouds count them."""
    threads_per_core: Annotated[int, Meta(ge=1, le=8)] = 2
    ram_gib: Amount | None = None
    ram_gb_s: Amount | None = None
    """Of host memory, both sockets, as the sum over channels."""
    nvme_tb: Amount | None = None
    """All local disks together; lists of EC2 types print the size of one of them."""
    nvme_gb_s: Amount | None = None
    """Reading all local disks together."""
    nic_gb_s: Amount | None = None
    """All network cards that carry data, one direction; clouds print gigabits."""
    host_link_gb_s: Amount | None = None
    """Between one part and the host, one direction; None: what the part has."""
    power_w: Amount | None = None
    usd_per_hour: Amount | None = None
    """The whole box on demand; None too for what is only sold in reserved blocks."""
    region: Text = ""
    priced: Text = ""
    """When the price was read."""
    source: Text = ""
    confidence: Text = ""
    note: Text = ""

    @property
    def cores(self) -> int | None:
        """Physical cores."""
        return None if self.vcpu is None else self.vcpu // self.threads_per_core

    @property
    def usd_micro_per_hour(self) -> int | None:
        """The price as the ledger counts: a whole number of micro-dollars."""
        return None if self.usd_per_hour is None else round(self.usd_per_hour * 1_000_000)
