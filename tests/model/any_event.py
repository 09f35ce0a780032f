"""Any event at all, for hypothesis: drawn from the types of its fields, possible or not."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from tidemill.model.codes import KINDS
from tidemill.model.events import Event

_LONGEST_TEXT = 12  # characters: longer ones tell nothing new
_MOST_ITEMS = 3


def events(kind: type[Event] | None = None) -> st.SearchStrategy[Any]:
    """Events of one kind, or of every kind."""
    return st.one_of([_of(inspect.type_info(one)) for one in KINDS if kind in {None, one}])


def _of(wanted: inspect.Type) -> st.SearchStrategy[Any]:
    match wanted:
        case inspect.IntType():
            return _integers(wanted)
        case inspect.StrType():
            longest = min(_LONGEST_TEXT, wanted.max_length or _LONGEST_TEXT)
            return st.text(
                st.characters(exclude_categories=["Cs"]),
                min_size=wanted.min_length or 0,
                max_size=longest,
            )
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.UnionType(types=types):
            return st.one_of([_of(one) for one in types])
        case inspect.TupleType(item_types=items):
            return st.tuples(*(_of(one) for one in items))
        case inspect.VarTupleType():
            least, most = wanted.min_length or 0, wanted.max_length or _MOST_ITEMS
            drawn = st.lists(_of(wanted.item_type), min_size=least, max_size=min(most, _MOST_ITEMS))
            return drawn.map(tuple)
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, *(_field(cls, one) for one in fields))
    raise AssertionError(wanted)


def _field(cls: type[msgspec.Struct], field: inspect.Field) -> st.SearchStrategy[Any]:
    """What a field may hold; its default is drawn often."""
    if cls.__name__ == "Piece" and field.name == "devices":
        return st.integers(0, 2**64 - 1)  # 64 bits
    drawn = _of(field.type)
    if field.default is msgspec.NODEFAULT:
        return drawn
    return st.one_of(st.just(field.default), drawn)


def _integers(wanted: inspect.IntType) -> st.SearchStrategy[int]:
    low = -(2**63) if wanted.ge is None else wanted.ge
    high = 2**63 - 1 if wanted.le is None else wanted.le
    if wanted.lt is not None:
        high = wanted.lt - 1
    return st.integers(low, high)
