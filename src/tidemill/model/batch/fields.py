"""Which column a field of an event goes to, and what it may hold there.

Bounds are read from the types of the fields, so that they are written once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import (
    ADDED,
    CHANGED,
    PIECED,
    SUBMITTED,
    TEXTS,
    Dictionary,
    EventColumn,
    JobColumn,
    Matrix,
)
from tidemill.model.rows import Checkpointing, Demand, Efficiency, Job
from tidemill.model.states import Confidence

_E = EventColumn
_J = JobColumn

_COLUMN_OF: Final[dict[str, EventColumn]] = {
    "job": _E.WHO,
    "node": _E.WHO,
    "contract": _E.WHO,
    "shape": _E.WHO,
    "attempt": _E.ATTEMPT,
    "why": _E.WHY,
    "cause": _E.WHY,
    "to": _E.TO,
    "to_job": _E.TO,
    "deadline_ms": _E.VALUE,
    "device": _E.VALUE,
    "slow_ppm": _E.VALUE,
    "busy_ppm": _E.VALUE,
    "beside_ppm": _E.VALUE,
    "is_final": _E.VALUE,
    "is_spare": _E.VALUE,
    "nodes": _E.VALUE,
    "half_life_ms": _E.VALUE,
    "over_milli": _E.VALUE,
    "paid_milli": _E.VALUE,
    "used_ms": _E.VALUE,
    "had_ms": _E.TO,
    "peak_ppm": _E.WHY,
    "layer": _E.TO,
    "reason": _E.VALUE,
    "checkpoint_ppm": _E.WHY,
    "host_ppm": _E.TO,
    "links_ppm": _E.VALUE,
    "mfu_ppm": _E.VALUE,
    "memory_ppm": _E.TO,
    "straggler_ppm": _E.VALUE,
    "silent_ppm": _E.TO,
    "figure": _E.WHY,
    "value": _E.VALUE,
    "source": _E.TO,
    "load": _E.WHY,
    "latency": _E.WHY,
    "bound_us": _E.TO,
    "amount": _E.VALUE,
    "minor": _E.TO,
    "xid": _E.VALUE,
    "confidence": _E.WHY,
    "covers_ms": _E.VALUE,
    "is_back": _E.WHY,
    "is_again": _E.TO,
    "keeps_jobs": _E.VALUE,
    "prefix": _E.TO,
    "estimate_ms": _E.TO,
}
"""Where the plain fields of events go, whatever the kind."""

JOB_FIELDS: Final[dict[str, JobColumn]] = {
    "estimate_ms": _J.ESTIMATE,
    "startup_ms": _J.STARTUP,
    "restart_ms": _J.RESTART,
    "checkpointing.interval_ms": _J.INTERVAL,
    "checkpointing.cost_ms": _J.COST,
    "efficiency.mfu_ppm": _J.MFU,
    "efficiency.host_ppm": _J.HOST,
    "efficiency.links_ppm": _J.LINKS,
    "resize_ms": _J.RESIZE,
}
DEMAND_FIELDS: Final[dict[str, JobColumn]] = {
    "compute_ppm": _J.COMPUTE,
    "bandwidth_ppm": _J.BANDWIDTH,
    "memory_mb": _J.MEMORY,
}


WHOLE_ROWS: Final[dict[type, tuple[str, str]]] = {
    ev.ContractSigned: ("contract", "contracts"),
    ev.QueueSet: ("queue", "queues"),
    ev.TopologySet: ("topology", "topologies"),
}
"""Kinds whose one field is a row of the dictionary: the field, and the table."""
_IN_POOLS: Final = ("at_ms", "pieces", "gained", "lost", "request")


class Field(NamedTuple):
    """A field of an event that is one number, and its column."""

    name: str
    column: EventColumn
    low: int
    high: int
    words: Sequence[Any] = ()
    """What its numbers stand for, by number; none: the number itself."""
    codes: dict[Any, int] | None = None
    is_text: bool = False
    """Whether the number is of a row of ``Dictionary.users``."""


@cache
def plain_fields(kind: type) -> tuple[Field, ...]:
    """The fields of a kind of event that are one number each, in their order."""
    if kind in WHOLE_ROWS or kind in {ev.JobSubmitted, ev.NodeAdded}:
        return ()
    info = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(kind))
    return tuple(_field(one) for one in info.fields if one.name not in _IN_POOLS)


def _field(field: msgspec.inspect.Field) -> Field:
    column = _COLUMN_OF[field.name]
    match field.type:
        case msgspec.inspect.BoolType():
            return Field(field.name, column, 0, 1, (False, True))
        case msgspec.inspect.EnumType(cls=cls) if cls is ev.Why:
            return Field(
                field.name, column, 0, len(codes.WHYS) - 1, codes.WHYS, dict(codes.WHY_CODE)
            )
        case msgspec.inspect.EnumType(cls=cls) if cls is Confidence:
            told = codes.CONFIDENCES
            return Field(field.name, column, 0, len(told) - 1, told, dict(codes.CONFIDENCE_CODE))
        case msgspec.inspect.EnumType(cls=cls):
            words = tuple(cls)
            assert [word.value for word in words] == list(range(len(words))), cls
            return Field(field.name, column, 0, len(words) - 1, words)
        case msgspec.inspect.StrType():
            return Field(field.name, column, 0, 2**62, is_text=True)
        case msgspec.inspect.IntType() as number:
            return Field(field.name, column, *_range(number))
        case other:
            raise AssertionError(f"a field of type {other} has no column")


def _range(number: msgspec.inspect.IntType) -> tuple[int, int]:
    low = -(2**63) if number.ge is None else number.ge
    high = 2**63 - 1 if number.le is None else number.le
    return low, high if number.lt is None else number.lt - 1


def bounds(dictionary: Dictionary) -> tuple[Matrix, Matrix]:
    """The least and the most that each column of each kind may hold."""
    low, high = (side.copy() for side in _fixed_bounds())
    high[ADDED, _E.VALUE] = len(dictionary.nodes.rows) - 1
    high[CHANGED, _E.VALUE] = len(dictionary.shapes.rows) - 1
    for code, column in TEXTS:
        high[code, column] = len(dictionary.users.rows) - 1
    for kind, (_, table) in WHOLE_ROWS.items():
        high[codes.KIND_CODE[kind], _E.VALUE] = len(getattr(dictionary, table).rows) - 1
    return low, high


@cache
def _fixed_bounds() -> tuple[Matrix, Matrix]:
    low, high = (np.zeros((len(codes.KINDS), len(_E)), np.int64) for _ in range(2))
    for code, kind in enumerate(codes.KINDS):
        high[code, _E.KIND] = len(codes.KINDS)
        high[code, _E.AT] = _range(_int_type(kind, "at_ms"))[1]
        for field in plain_fields(kind):
            low[code, field.column], high[code, field.column] = field.low, field.high
    for code in (*PIECED, SUBMITTED, ADDED):
        high[code, [_E.FIRST, _E.COUNT]] = 2**62 if code in PIECED else (2**62, 0)
    high[codes.KIND_CODE[ev.AskedMove], _E.VALUE] = 2**62
    return low, high


def job_bounds(dictionary: Dictionary) -> tuple[Matrix, Matrix]:
    low, high = (side.copy() for side in _fixed_job_bounds())
    high[_J.SHAPE], high[_J.USER] = len(dictionary.shapes.rows) - 1, len(dictionary.users.rows) - 1
    return low, high


@cache
def _fixed_job_bounds() -> tuple[Matrix, Matrix]:
    low, high = np.zeros(len(_J), np.int64), np.zeros(len(_J), np.int64)
    for name, column in JOB_FIELDS.items():
        outer, _, inner = name.rpartition(".")
        kind = {"": Job, "checkpointing": Checkpointing, "efficiency": Efficiency}[outer]
        low[column], high[column] = _range(_int_type(kind, inner))
    for name, column in DEMAND_FIELDS.items():
        low[column], high[column] = _range(_int_type(Demand, name))
    high[[_J.CONFIDENCE, _J.HAS_DEMAND]] = len(codes.CONFIDENCES) - 1, 1
    high[_J.ATTAINABLE] = _range(_int_type(Efficiency, "attainable_ppm"))[1]
    return low, high


def _int_type(kind: type, name: str) -> msgspec.inspect.IntType:
    """The type of a field that is a number, or a number or nothing."""
    info = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(kind))
    (found,) = (field.type for field in info.fields if field.name == name)
    kinds = found.types if isinstance(found, msgspec.inspect.UnionType) else (found,)
    (number,) = (one for one in kinds if isinstance(one, msgspec.inspect.IntType))
    return number
