"""Kernels that are compiled by themselves, and called by others where they lie.

A kernel is compiled into each that calls it, which is quick to run; but a whole scheduling cycle is
then compiled once for Python, and again as a part of whatever goes from beat to beat. A *shared*
kernel is compiled once. Others read where it lies when they call it, from a slot that the machine's
linker finds by name; so all may be compiled in any order, and by several processes at once.
"""

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tidemill.compiled.loading import symbol


def stub(function: Callable[..., Any], wanted: tuple[Any, ...]) -> Any:  # noqa: ANN401 - without types
    """The numba type of a shared kernel: what others call in its place. It returns an integer."""
    name = symbol(function)

    def define(_: Any, *__: Any) -> Any:  # noqa: ANN401 - as above
        def call(context: Any, builder: Any, _: Any, args: Any) -> Any:  # noqa: ANN401 - as above
            convention = context.call_conv
            kind = convention.get_function_type(types.int64, wanted).as_pointer()
            slot = builder.module.globals.get(name)
            if slot is None:
                slot = ir.GlobalVariable(builder.module, kind, name)
                slot.linkage = "external"
            found = builder.load(slot)
            status, value = convention.call_function(builder, found, types.int64, wanted, args)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return value

        return types.int64(*wanted), call

    parameters = inspect.signature(function).parameters.values()
    first = inspect.Parameter("typingctx", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(define, "__signature__", inspect.Signature([first, *parameters]))  # noqa: B010 - a function has none by itself
    made = intrinsic(define)
    made._register()
    return types.Function(_template(made))


def _template(made: Any) -> Any:  # noqa: ANN401 - as above
    from numba.core.typing.templates import builtin_registry  # noqa: PLC0415 - for this alone

    found = [kind for value, kind in builtin_registry.globals if value is made]
    return found[-1].templates[0]


def address_of(function: Callable[..., Any], compiled: Any) -> int:  # noqa: ANN401 - as above
    """Where a shared kernel lies that numba compiled, or loaded."""
    assert compiled.signature.return_type == types.int64, f"{function} returns an integer"
    found: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return found
