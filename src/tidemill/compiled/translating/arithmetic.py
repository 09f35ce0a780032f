"""Arithmetic of kernels: integers of 64 bits that wrap around, floors and truths as in Python.

What is divided by zero is 0: nobody does, so nobody asks.
"""

import ast
import struct

from tidemill.compiled.translating.kinds import (
    INT,
    REAL,
    TRUTH,
    WORD,
    KernelError,
    Kind,
    Several,
    Value,
    both,
)
from tidemill.compiled.translating.writing import Emitter

_BITS: dict[type[ast.operator], str] = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_SUMS: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


def number(value: object) -> Value:
    """A number of the text."""
    if isinstance(value, bool):
        return Value(TRUTH, ("true" if value else "false",))
    if isinstance(value, float):
        return Value(REAL, (f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}",))
    if not isinstance(value, int):
        raise KernelError(f"{value!r} is no number")
    if not -(2**63) <= value < 2**63:
        raise KernelError(f"{value} does not fit into 64 bits")
    return Value(INT, (str(int(value)),))


def cast(writer: Emitter, value: Value, kind: Kind) -> Value:
    """The value as one of another kind."""
    if value.kind == kind:
        return value
    if isinstance(kind, Several) and isinstance(value.kind, Several):
        each = zip(items(value), kind.items, strict=True)
        return together([cast(writer, item, wanted) for item, wanted in each])
    if len(value.parts) != 1 or kind not in (INT, WORD, TRUTH, REAL):
        raise KernelError(f"{value.kind} is given where {kind} is wanted")
    part = value.parts[0]
    if kind == TRUTH:
        return Value(TRUTH, (truth(writer, value),))
    if kind == REAL:
        how = "sitofp i64" if value.kind == INT else "uitofp " + value.kind.parts[0]
        return Value(REAL, (writer.take(f"{how} {part} to double"),))
    if value.kind == TRUTH:
        fixed = {"true": "1", "false": "0"}.get(part)
        return Value(kind, (fixed or writer.take(f"zext i1 {part} to i64"),))
    if value.kind == REAL:
        how = "fptosi" if kind == INT else "fptoui"
        return Value(kind, (writer.take(f"{how} double {part} to i64"),))
    return Value(kind, (part,))


def items(value: Value) -> list[Value]:
    """The values of several."""
    assert isinstance(value.kind, Several), "only several have items"
    found, first = list[Value](), 0
    for kind in value.kind.items:
        found.append(Value(kind, value.parts[first : first + len(kind.parts)]))
        first += len(kind.parts)
    return found


def together(values: list[Value]) -> Value:
    """Several values as one."""
    kinds = Several(tuple(value.kind for value in values))
    return Value(kinds, tuple(part for value in values for part in value.parts))


def truth(writer: Emitter, value: Value) -> str:
    """Whether a value counts as true."""
    if value.kind == TRUTH:
        return value.parts[0]
    if value.kind == REAL:
        return writer.take(f"fcmp une double {value.parts[0]}, 0.0")
    if value.kind in (INT, WORD):
        return writer.take(f"icmp ne i64 {value.parts[0]}, 0")
    raise KernelError(f"{value.kind} is neither true nor false")


def compare(writer: Emitter, op: ast.cmpop, a: Value, b: Value) -> str:
    """Whether two values stand so to each other."""
    kind = both(a.kind, b.kind)
    x, y = cast(writer, a, kind).parts[0], cast(writer, b, kind).parts[0]
    if type(op) not in _COMPARED or kind not in (INT, WORD, TRUTH, REAL):
        raise KernelError(f"{kind} is not compared so")
    said = _COMPARED[type(op)]
    if kind == REAL:
        return writer.take(f"fcmp {'une' if said == 'ne' else 'o' + said} double {x}, {y}")
    sign = "" if said in ("eq", "ne") else "s" if kind == INT else "u"
    return writer.take(f"icmp {sign}{said} {kind.parts[0]} {x}, {y}")


def binary(writer: Emitter, op: ast.operator, a: Value, b: Value) -> Value:
    """What an operator makes of two values."""
    kind = both(a.kind, b.kind)
    if kind not in (INT, WORD, TRUTH, REAL):
        raise KernelError(f"there is no {type(op).__name__} of {kind}")
    if isinstance(op, ast.Div):
        kind = REAL
    elif kind == TRUTH and type(op) not in _BITS:
        kind = INT
    x, y = cast(writer, a, kind).parts[0], cast(writer, b, kind).parts[0]
    if kind == REAL:
        return Value(REAL, (_real(writer, op, x, y),))
    if (how := _BITS.get(type(op))) is not None:
        return Value(kind, (writer.take(f"{how} {kind.parts[0]} {x}, {y}"),))
    return _integer(writer, op, kind, x, y)


def _integer(writer: Emitter, op: ast.operator, kind: Kind, x: str, y: str) -> Value:
    if (how := _SUMS.get(type(op))) is not None:
        return Value(kind, (writer.take(f"{how} i64 {x}, {y}"),))
    if isinstance(op, ast.LShift | ast.RShift):
        how = "shl" if isinstance(op, ast.LShift) else "ashr" if kind == INT else "lshr"
        return Value(kind, (writer.take(f"{how} i64 {x}, {y}"),))
    if isinstance(op, ast.FloorDiv | ast.Mod):
        quotient, rest = divided(writer, Value(kind, (x,)), Value(kind, (y,)))
        return quotient if isinstance(op, ast.FloorDiv) else rest
    raise KernelError(f"there is no {type(op).__name__} of {kind}")


def _real(writer: Emitter, op: ast.operator, x: str, y: str) -> str:
    how = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}.get(type(op))
    if how is None:
        raise KernelError(f"there is no {type(op).__name__} of {REAL}")
    return writer.take(f"{how} double {x}, {y}")


def divided(writer: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """How often one number is in another, rounded down, and what is left."""
    kind, x, y = a.kind, a.parts[0], b.parts[0]
    if kind == WORD:
        return _divided_unsigned(writer, x, y)
    if b.constant not in (None, 0, -1):
        quotient, rest = _floor(writer, x, y)
        return Value(kind, (quotient,)), Value(kind, (rest,))
    is_zero = writer.take(f"icmp eq i64 {y}, 0")
    is_minus = writer.take(f"icmp eq i64 {y}, -1")
    is_odd = writer.take(f"or i1 {is_zero}, {is_minus}")
    by = writer.take(f"select i1 {is_odd}, i64 1, i64 {y}")
    quotient, rest = _floor(writer, x, by)
    negative = writer.take(f"sub i64 0, {x}")
    other = writer.take(f"select i1 {is_zero}, i64 0, i64 {negative}")
    found = writer.take(f"select i1 {is_odd}, i64 {other}, i64 {quotient}")
    return Value(kind, (found,)), Value(kind, (rest,))


def _floor(writer: Emitter, x: str, y: str) -> tuple[str, str]:
    quotient = writer.take(f"sdiv i64 {x}, {y}")
    rest = writer.take(f"srem i64 {x}, {y}")
    signs = writer.take(f"xor i64 {rest}, {y}")
    differ = writer.take(f"icmp slt i64 {signs}, 0")
    is_left = writer.take(f"icmp ne i64 {rest}, 0")
    is_below = writer.take(f"and i1 {differ}, {is_left}")
    less = writer.take(f"sext i1 {is_below} to i64")
    more = writer.take(f"select i1 {is_below}, i64 {y}, i64 0")
    return writer.take(f"add i64 {quotient}, {less}"), writer.take(f"add i64 {rest}, {more}")


def _divided_unsigned(writer: Emitter, x: str, y: str) -> tuple[Value, Value]:
    is_zero = writer.take(f"icmp eq i64 {y}, 0")
    by = writer.take(f"select i1 {is_zero}, i64 1, i64 {y}")
    found = writer.take(f"udiv i64 {x}, {by}")
    quotient = writer.take(f"select i1 {is_zero}, i64 0, i64 {found}")
    rest = writer.take(f"urem i64 {x}, {by}")
    return Value(WORD, (quotient,)), Value(WORD, (rest,))


def unary(writer: Emitter, op: ast.unaryop, a: Value) -> Value:
    """What an operator makes of one value."""
    if isinstance(op, ast.Not):
        return Value(TRUTH, (writer.take(f"xor i1 {truth(writer, a)}, true"),))
    if isinstance(op, ast.USub) and a.kind == REAL:
        return Value(REAL, (writer.take(f"fneg double {a.parts[0]}"),))
    if a.kind == TRUTH:
        a = cast(writer, a, INT)
    if a.kind not in (INT, WORD):
        raise KernelError(f"there is no {type(op).__name__} of {a.kind}")
    if isinstance(op, ast.USub):
        if a.constant is not None:
            return number(-a.constant)
        return Value(a.kind, (writer.take(f"sub i64 0, {a.parts[0]}"),))
    if isinstance(op, ast.Invert):
        if a.constant is not None:
            return number(~a.constant)
        return Value(a.kind, (writer.take(f"xor i64 {a.parts[0]}, -1"),))
    return a


def extreme(writer: Emitter, name: str, values: list[Value]) -> Value:
    """The least or the largest of some numbers."""
    kind = values[0].kind
    for value in values[1:]:
        kind = both(kind, value.kind)
    if kind == TRUTH:
        kind = INT
    if kind not in (INT, WORD, REAL):
        raise KernelError(f"there is no {name} of {kind}")
    found = cast(writer, values[0], kind).parts[0]
    how = {INT: "icmp s", WORD: "icmp u", REAL: "fcmp o"}[kind] + ("lt" if name == "min" else "gt")
    what = kind.parts[0]
    for value in values[1:]:
        other = cast(writer, value, kind).parts[0]
        is_better = writer.take(f"{how} {what} {other}, {found}")
        found = writer.take(f"select i1 {is_better}, {what} {other}, {what} {found}")
    return Value(kind, (found,))
