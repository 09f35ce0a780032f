"""The card: what was measured on one unit, when, and under which conditions.

Written by a sitting, read by ``standing`` (against the catalogue) and ``peers`` (against others).
What was not measured is absent, and ``unknown`` says why; nothing is zero for want of knowing.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tidemill.model import decoding
from tidemill.model.errors import SpecError
from tidemill.units.sharing.known import current_name

VERSION: Literal[1] = 1
Precision = Literal["fp8", "int8", "bf16", "fp16", "tf32", "fp32"]
What = Literal["hbm-copy", "hbm-read", "h2d-pinned", "d2h-pinned", "h2d-pageable", "d2h-pageable"]
Mode = Literal["time-slice", "mps"]
Text = Annotated[str, Meta(max_length=2000)]
Amount = Annotated[float, Meta(gt=0, le=1e18)]
Natural = Annotated[float, Meta(ge=0, le=1e18)]
Count = Annotated[int, Meta(ge=1, le=10**12)]


class Unit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Which unit, on which host, with which software."""

    name: Text
    """As the driver calls it."""
    id: Text = ""
    """The first part of its serial name: enough to know it among its peers."""
    memory_bytes: Count
    processors: Count
    """Streaming multiprocessors."""
    power_limit_w: Amount | None = None
    driver: Text = ""
    software: Text = ""
    host: Text = ""


class Rate(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Dense matrix products of one precision."""

    precision: Precision
    size: Count
    """Of the square matrices."""
    tflops: Amount
    """10^12 operations a second, at the median."""
    spread: Natural
    """(slowest − fastest) / median of the products timed, without the slowest tenth."""
    timed: Count


class Bandwidth(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Bytes a second, 10^9."""

    what: What
    gb_s: Amount
    timed: Count


class Sustained(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A matrix product repeated without rest: what it draws and how it is clocked."""

    precision: Precision
    seconds: Amount
    tflops: Amount
    watts_mean: Amount | None = None
    watts_max: Amount | None = None
    sm_mhz_mean: Amount | None = None
    sm_mhz_min: Amount | None = None
    memory_mhz: Amount | None = None
    celsius_max: Amount | None = None
    samples: Annotated[int, Meta(ge=0)] = 0


class TransformerStep(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One step of a small transformer: forward, backward, optimiser."""

    parameters: Count
    layers: Count
    width: Count
    tokens: Count
    sequence: Count
    flops: Amount
    """Model FLOPs of a step: 6 per parameter and token, and causal attention."""
    ms: Amount
    timed: Count


class CheckpointTiming(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Saving a state from the device, waiting for all of it or only for the copy."""

    bytes: Count
    to_host_s: Amount
    """Device to pinned memory of the host."""
    to_disk_s: Amount
    """Host to disk, flushed."""
    sync_stall_s: Amount
    """How long steps stand still when the step waits for the disk."""
    async_stall_s: Amount
    """How long they stand still when a thread writes while steps go on."""
    disk: Text = ""


class MeasuredTenant(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One workload alone on the unit: the axes it uses and how fast it is."""

    kind: Text
    words: Text
    period_us: Amount
    """From one iteration to the next."""
    device_us: Amount
    """Of that, on the device: iterations back to back without the host."""
    kernels: Count
    flops: Natural
    bytes: Natural
    """Read and written in device memory by an iteration."""
    memory_bytes: Count
    per_s: Amount
    p50_ms: Amount
    p99_ms: Amount


class PairedRun(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One tenant of a pair while the other runs."""

    kind: Text
    per_s: Natural
    p50_ms: Amount | None = None
    p99_ms: Amount | None = None
    iterations: Annotated[int, Meta(ge=0)]


class Pair(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Two tenants at once, each a process of its own."""

    mode: Mode
    a: PairedRun
    b: PairedRun
    seconds: Amount


class Card(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Everything one sitting measured."""

    version: Literal[1]
    made: Text
    unit: Unit
    conditions: Text = ""
    took_s: Amount
    rates: tuple[Rate, ...] = ()
    bandwidths: tuple[Bandwidth, ...] = ()
    sustained: Sustained | None = None
    step: TransformerStep | None = None
    checkpoint: CheckpointTiming | None = None
    tenants: tuple[MeasuredTenant, ...] = ()
    pairs: tuple[Pair, ...] = ()
    unknown: dict[str, str] = {}
    """What was not measured, and why."""

    def rate(self, precision: str) -> float | None:
        """The rate of a precision, 10^12 operations a second."""
        return next((r.tflops for r in self.rates if r.precision == precision), None)

    def gb_s(self, what: str) -> float | None:
        """A bandwidth, 10^9 bytes a second."""
        return next((b.gb_s for b in self.bandwidths if b.what == what), None)


def read(path: Path) -> Card:
    """A card from its file."""
    data = path.read_bytes()
    try:
        return _renamed(msgspec.json.decode(data, type=Card))
    except decoding.FAULTS as error:
        raise SpecError(
            f"`{path}` is not a probe result: {decoding.in_words(error, data, Card)}",
            hint=f"probe results are written by `tidemill probe -o result.json`; this version "
            f"reads version {VERSION}",
        ) from error


def _renamed(card: Card) -> Card:
    """The card with its tenants under the names that they have today."""
    return replace(
        card,
        tenants=tuple(replace(t, kind=current_name(t.kind)) for t in card.tenants),
        pairs=tuple(
            replace(
                p,
                a=replace(p.a, kind=current_name(p.a.kind)),
                b=replace(p.b, kind=current_name(p.b.kind)),
            )
            for p in card.pairs
        ),
    )


def written(card: Card) -> bytes:
    """A card as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(_short(msgspec.to_builtins(card))), indent=1)


def _short(value: Any) -> Any:  # noqa: ANN401 - any piece of a JSON document
    """Figures with six digits: more would pretend to more than was measured."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {key: _short(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_short(inner) for inner in value]
    return value
