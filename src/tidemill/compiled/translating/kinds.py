"""The kinds of values in kernels, and what each is for LLVM."""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import NamedTuple


class KernelError(Exception):
    """A kernel's text says something that cannot be compiled."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a truth, or nothing."""

    name: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


INT = Scalar("int64", ("i64",))
WORD = Scalar("uint64", ("i64",))
TRUTH = Scalar("bool", ("i1",))
REAL = Scalar("float64", ("double",))
NOTHING = Scalar("none", ())


@dataclass(frozen=True)
class Array:
    """An array whose rows follow one after another: where it lies, and how long it is each way."""

    of: str
    ndim: int

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """What it is made of."""
        return ("ptr", *("i64" for _ in range(self.ndim)))

    def __str__(self) -> str:
        return f"array({self.of}, {self.ndim}d, C)"


@dataclass(frozen=True)
class ArrayTuple:
    """A named tuple of arrays, known by one pointer to where they lie and how long they are."""

    name: str
    fields: tuple[tuple[str, Array], ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """What it is made of."""
        return ("ptr",)

    @cached_property
    def places(self) -> dict[str, tuple[int, Array]]:
        """After how many numbers those of each field begin, and what it is."""
        ends = accumulate(len(array.parts) for _, array in self.fields)
        each = zip(ends, self.fields, strict=True)
        return {field: (end - len(array.parts), array) for end, (field, array) in each}

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(len(array.parts) for _, array in self.fields)

    def __str__(self) -> str:
        return f"{self.name} of {len(self.fields)} arrays"


@cache
def table(
    name: str, fields: tuple[str, ...], dims: tuple[int, ...], others: tuple[tuple[str, str], ...]
) -> ArrayTuple:
    """A tuple of arrays of int64, but for the others: the same object for the same tuple."""
    of = dict(others)
    made = zip(fields, dims, strict=True)
    return ArrayTuple(
        name, tuple((field, Array(of.get(field, "int64"), dim)) for field, dim in made)
    )


@dataclass(frozen=True, slots=True)
class Several:
    """A few values at once: what a function returns, or the lengths of an array."""

    items: "tuple[Kind, ...]"

    @property
    def parts(self) -> tuple[str, ...]:
        """What it is made of."""
        return tuple(part for item in self.items for part in item.parts)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Kind = Scalar | Array | ArrayTuple | Several


class Value(NamedTuple):
    """A value: of which kind, and the registers or numbers that it is made of."""

    kind: Kind
    parts: tuple[str, ...]

    @property
    def constant(self) -> int | None:
        """The number that it is, if the text says so."""
        first = self.parts[0] if self.parts else "%"
        return int(first) if self.kind == INT and first[0] not in "%@" else None


class Element(NamedTuple):
    """What arrays of one type have in memory, and what kernels make of it."""

    stored: str
    kind: Scalar
    is_signed: bool = True


ELEMENTS = {
    "int64": Element("i64", INT),
    "uint64": Element("i64", WORD),
    "int32": Element("i32", INT),
    "int16": Element("i16", INT),
    "int8": Element("i8", INT),
    "uint32": Element("i32", INT, is_signed=False),
    "uint16": Element("i16", INT, is_signed=False),
    "uint8": Element("i8", INT, is_signed=False),
    "bool": Element("i8", TRUTH, is_signed=False),
    "float64": Element("double", REAL),
}


def both(a: Kind, b: Kind) -> Kind:
    """The kind of what may be of either."""
    if a == b:
        return a
    if isinstance(a, Several) and isinstance(b, Several) and len(a.items) == len(b.items):
        return Several(tuple(both(x, y) for x, y in zip(a.items, b.items, strict=True)))
    for wide, narrow in ((INT, (TRUTH,)), (REAL, (TRUTH, INT)), (WORD, (TRUTH,))):
        if (a == wide and b in narrow) or (b == wide and a in narrow):
            return wide
    raise KernelError(f"it is {a} and {b}")
