"""How a named tuple of arrays is handed to kernels: as the one pointer that Python has to it.

Numba takes a tuple apart into every number of every array of it, and puts all of them into each
call from kernel to kernel: some five hundred for the cluster state and a desk. That took 10 to 15
microseconds for each call from Python, and most of the time to compile. Here a kernel reads where
an array lies when it uses it, from the tuple and the array themselves as Python and numpy lay them
out (``PyTupleObject``, ``PyArrayObject``: both are of their public interface, and what they look
like is verified when a tuple comes in). Nothing is counted: whoever calls a kernel has the tuple.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np import arrayobj

_ITEMS = tuple.__basicsize__  # where the items of a tuple begin
_COUNT = object.__basicsize__  # where it says how many there are
_DATA = object.__basicsize__  # where an array says where its numbers are
_DIMENSIONS = _DATA + 8
_SHAPE = _DATA + 16
_FLAGS = _DATA + 48
_IN_ORDER = 0x0101  # numpy's flags: rows one after another, and aligned
_BYTES = 8  # of a pointer, and of a length


class Handed(types.Type):
    """A named tuple of arrays, each with its type and its dimensions."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = dict(fields)
        self.places = {field: i for i, (field, _) in enumerate(fields)}
        told = ",".join(f"{field}:{array.dtype}{array.ndim}" for field, array in fields)
        super().__init__(name=f"{name}({told})")

    @property
    def mangling_args(self) -> tuple[str, tuple[Any, ...]]:
        """What symbols are made of: the name of the tuple is enough."""
        return self.name.partition("(")[0], ()


@register_model(Handed)
class _Pointer(models.PrimitiveModel):
    def __init__(self, manager: Any, handed: Handed) -> None:  # noqa: ANN401 - without types
        super().__init__(manager, handed, ir.IntType(8).as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = Handed

    def generic_resolve(self, handed: Handed, field: str) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above
        return handed.fields.get(field)


@lower_getattr_generic(Handed)
def _array(context: Any, builder: Any, handed: Handed, value: Any, field: str) -> Any:  # noqa: ANN401 - as above
    """Read where an array of a tuple lies, and how long it is."""
    array_type = handed.fields[field]
    found = _pointer(builder, value, _ITEMS + _BYTES * handed.places[field])
    shape_at = _pointer(builder, found, _SHAPE)
    shape = [_number(builder, shape_at, _BYTES * d, 64) for d in range(array_type.ndim)]
    item = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
    strides = [item]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
    data = _pointer(builder, found, _DATA)
    array = arrayobj.make_array(array_type)(context, builder)
    arrayobj.populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=shape,
        strides=strides,
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()


@unbox(Handed)
def _hand_over(handed: Handed, value: Any, c: Any) -> Any:  # noqa: ANN401 - as above
    """Take a tuple as it is, once it is seen to be one of such arrays."""
    builder = c.builder
    is_wrong = builder.icmp_signed(
        "!=", _number(builder, value, _COUNT, 64), ir.IntType(64)(len(handed.fields))
    )
    failed = cgutils.alloca_once_value(builder, is_wrong)
    with builder.if_then(builder.not_(is_wrong)):
        for i, array_type in enumerate(handed.fields.values()):
            found = _pointer(builder, value, _ITEMS + _BYTES * i)
            dimensions = _number(builder, found, _DIMENSIONS, 32)
            has_other = builder.icmp_signed("!=", dimensions, ir.IntType(32)(array_type.ndim))
            is_wrong = builder.or_(has_other, has_gaps(builder, found))
            bad = builder.or_(builder.load(failed), is_wrong)
            builder.store(bad, failed)
    with builder.if_then(builder.load(failed), likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"a kernel wants {handed}")
    return NativeValue(value, is_error=builder.load(failed))


def has_gaps(builder: Any, array: Any) -> Any:  # noqa: ANN401 - as above
    """Whether the rows of an array do not follow one after another, by numpy's own flags."""
    flags = builder.and_(_number(builder, array, _FLAGS, 32), ir.IntType(32)(_IN_ORDER))
    return builder.icmp_signed("!=", flags, ir.IntType(32)(_IN_ORDER))


def _pointer(builder: Any, base: Any, offset: int) -> Any:  # noqa: ANN401 - as above
    return _read(builder, base, offset, ir.IntType(8).as_pointer())


def _number(builder: Any, base: Any, offset: int, bits: int) -> Any:  # noqa: ANN401 - as above
    return _read(builder, base, offset, ir.IntType(bits))


def _read(builder: Any, base: Any, offset: int, kind: Any) -> Any:  # noqa: ANN401 - as above
    """Read something that stays as it is while a kernel runs."""
    at = builder.gep(base, [ir.IntType(32)(offset)])
    found = builder.load(builder.bitcast(at, kind.as_pointer()))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found
