"""What ``unit roofline`` prints: pieces under their ceilings, the picture, and what-ifs."""

from typing import TYPE_CHECKING, Any

import msgspec

from tidemill.cli import plot, screen
from tidemill.cli.bars import bar
from tidemill.cli.unit.roofline import FORMULA
from tidemill.units import fitting, precision, roofline, serving, whatif
from tidemill.units.models import Model
from tidemill.units.parallelism import ranks
from tidemill.units.whatif import Phase, PhaseQuestion

if TYPE_CHECKING:
    from rich.table import Table

    from tidemill.units.catalogue.rows import Part
    from tidemill.units.roofline import Timed

MARKS = "abcdefghij"
ALL = "×"


def shown(asked: PhaseQuestion, name: str, others: "list[Part]") -> None:
    """The verdict, the pieces, the picture, the ceilings, what-ifs."""
    console = screen.out()
    for line in _verdict(asked, name):
        console.print(line, style="bold", soft_wrap=True)
    console.print(_pieces(asked))
    for line in _picture(asked):
        console.print(line, soft_wrap=True, markup=False)
    for line in _remarks(asked):
        console.print(line, soft_wrap=True)
    made = screen.table("what if", "tokens/s")
    for change in whatif.changes(asked, others):
        made.add_row(change.change, f"{change.factor:.2f}×")
    console.print(made)
    screen.note(FORMULA)


def encoded(asked: PhaseQuestion, name: str, others: "list[Part]") -> bytes:
    """The same as JSON."""
    under = whatif.ceilings(asked)
    work = whatif.pieces(asked)
    data: dict[str, Any] = {
        "model": name,
        "part": asked.part.key,
        "phase": asked.phase,
        "units": ranks(asked.stated),
        "seconds": whatif.seconds(asked),
        "tokens_per_s": whatif.tokens_per_s(asked),
        "binds": roofline.binds(work, under),
        "shares": roofline.shares(work, under),
        "used": whatif.used(asked),
        "ceilings": under._asdict(),
        "ridge_flop_per_byte": roofline.ridge(under),
        "ridge_tokens": roofline.ridge_tokens(under, precision.size(asked.serving.weights)),
        "ridge_batch": _ridge_batch(asked),
        "most_sequences": _most_sequences(asked),
        "pieces": [
            one.piece._asdict()
            | {"seconds": one.seconds, "binds": one.binds, "intensity": one.piece.intensity}
            for one in roofline.timed(work, under)
        ],
        "what_if": {w.change: w.factor for w in whatif.changes(asked, others)},
        "formula": FORMULA,
    }
    return msgspec.json.encode(data)


def _verdict(asked: PhaseQuestion, name: str) -> list[str]:
    under, work = whatif.ceilings(asked), whatif.pieces(asked)
    bound = roofline.binds(work, under)
    share = roofline.shares(work, under)[bound]
    units = f"{ranks(asked.stated):,} × {asked.part.key}"
    took, rate = whatif.seconds(asked), whatif.tokens_per_s(asked)
    spent = f"bound by {bound} ({share:.0%} of the time)"
    return [
        f"{_workload(asked, name)} on {units}, {asked.precision}",
        f"{spent}: at least {_time(took)}, at most {rate:,.0f} tokens/s",
    ]


def _workload(asked: PhaseQuestion, name: str) -> str:
    context = f"{asked.serving.context:,} tokens each"
    sequences = screen.count(asked.serving.batch, "sequence")
    if isinstance(asked.model, int):
        context = "attention and cache unknown"
    match asked.phase:
        case Phase.DECODE:
            return f"one token of {name} for {sequences}, {context},"
        case Phase.PREFILL:
            return f"prompts of {name}, {sequences}, {asked.serving.context:,} tokens each,"
        case Phase.TRAIN:
            batch = screen.count(asked.stated.batch, "sequence")
            return f"a training step of {name}, {batch} of {asked.stated.sequence:,} tokens,"


def _pieces(asked: PhaseQuestion) -> "Table":
    timed = roofline.timed(whatif.pieces(asked), whatif.ceilings(asked))
    total = sum(one.seconds for one in timed)
    made = screen.table("", "per accelerator", "GFLOP", "GB moved", "GB sent", "FLOP/byte", "time",
                        "bound by", "", right_from=2)  # fmt: skip
    made.columns[7].justify = made.columns[8].justify = "left"
    for mark, one in zip(MARKS, timed, strict=False):
        piece = one.piece
        made.add_row(mark, piece.name, _figure(piece.flops / 1e9), _figure(piece.moved / 1e9),
                     _figure(piece.sent / 1e9), _figure(piece.intensity), _time(one.seconds),
                     one.binds.value, bar(one.seconds / total, 16))  # fmt: skip
    moved = sum(one.piece.moved for one in timed)
    flops = sum(one.piece.flops for one in timed)
    made.add_row(ALL, "all", _figure(flops / 1e9), _figure(moved / 1e9),
                 _figure(sum(one.piece.sent for one in timed) / 1e9), _figure(flops / moved),
                 _time(total), "", "")  # fmt: skip
    return made


def _picture(asked: PhaseQuestion) -> list[str]:
    """Each piece where it stands under the roof, and all of them together."""
    under = whatif.ceilings(asked)
    timed = roofline.timed(whatif.pieces(asked), under)
    points = [_point(mark, one) for mark, one in zip(MARKS, timed, strict=False)]
    flops, moved = (sum(getattr(one.piece, f) for one in timed) for f in ("flops", "moved"))
    points.append(plot.Point(ALL, flops / moved, flops / sum(one.seconds for one in timed)))
    return plot.roofline(under.flops_per_s, under.bytes_per_s, points)


def _point(mark: str, one: "Timed") -> plot.Point:
    return plot.Point(mark, one.piece.intensity or 0.0, one.piece.flops / one.seconds)


def _remarks(asked: PhaseQuestion) -> list[str]:
    under = whatif.ceilings(asked)
    used = whatif.used(asked)
    ridge, peak = f"{roofline.ridge(under):,.1f} FLOP/byte", plot.rate(under.flops_per_s)
    link = f", link {under.link_bytes_per_s / 1e9:,g} GB/s" if under.link_bytes_per_s else ""
    arithmetic, bandwidth = f"{used['compute']:.2%}", f"{used['memory bandwidth']:.1%}"
    lines = [
        f"ridge: {ridge}; peak {peak}, memory {under.bytes_per_s / 1e12:,.3g} TB/s{link}",
        f"used: {arithmetic} of the FLOP/s, {bandwidth} of the memory bandwidth",
    ]
    if asked.phase == Phase.DECODE:
        lines.append(_capacity(asked))
        lines.append(_whole(asked))
    return lines


def _whole(asked: PhaseQuestion) -> str:
    """From which batch on arithmetic binds all pieces together, if it ever does."""
    batch = _ridge_batch(asked)
    if batch is None:
        return (
            "as a whole it is compute-bound at no batch size: each sequence adds work that is not"
        )
    return f"as a whole it is compute-bound from a batch of {batch:,} on"


def _ridge_batch(asked: PhaseQuestion) -> int | None:
    return whatif.ridge_batch(asked) if asked.phase == Phase.DECODE else None


def _capacity(asked: PhaseQuestion) -> str:
    """Which comes first as the batch grows: the ridge, or the end of the memory."""
    each = precision.size(asked.serving.weights)
    ridge = roofline.ridge_tokens(whatif.ceilings(asked), each)
    most = _most_sequences(asked)
    line = f"weights are compute-bound from a batch of {ridge:,.0f} on"
    if most is None:
        return line
    if not most:
        return f"{line}; the weights do not fit: see `tidemill unit fit`"
    held = f"memory holds {screen.count(most, 'sequence')} of {asked.serving.context:,} tokens"
    first = (
        "memory capacity is reached first"
        if most < ridge * asked.stated.data
        else "the ridge point is reached first"
    )
    return f"{line}; {held}: {first}"


def _most_sequences(asked: PhaseQuestion) -> int | None:
    if not isinstance(asked.model, Model):
        return None
    room = fitting.usable(asked.part)
    return serving.most_sequences(asked.model, asked.stated, asked.serving, room)


def _figure(number: float | None) -> str:
    if not number:
        return "-"
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _time(seconds: float) -> str:
    for size, name in ((1, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:,.2f} {name}"
    return f"{seconds * 1e6:,.1f} µs"
