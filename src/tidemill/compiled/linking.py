"""Kernels that are compiled by themselves, and called by others where they lie.

A kernel is compiled into each that calls it, which is quick to run; but a whole scheduling cycle is
then compiled once for Python, and again as a part of whatever goes from beat to beat. A *shared*
kernel is compiled once. Others call it by a name, which the machine's linker finds when they are
loaded; so it must be there before them (``compiled._Kernel.prepare``).
"""

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def stub(function: Callable[..., Any], wanted: tuple[Any, ...]) -> Any:  # noqa: ANN401 - without types
    """The numba type of a shared kernel: what others call in its place. It returns an integer."""
    name = symbol(function)

    def define(_: Any, *__: Any) -> Any:  # noqa: ANN401 - as above
        def call(context: Any, builder: Any, _: Any, args: Any) -> Any:  # noqa: ANN401 - as above
            convention = context.call_conv
            kind = convention.get_function_type(types.int64, wanted)
            found = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
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


def symbol(function: Callable[..., Any]) -> str:
    """What a shared kernel is called by the linker."""
    return f"{function.__module__}.{function.__qualname__}"


def publish(function: Callable[..., Any], compiled: Any) -> None:  # noqa: ANN401 - as above
    """Let the linker find a shared kernel that was compiled, or loaded."""
    assert compiled.signature.return_type == types.int64, f"{function} returns an integer"
    pointer = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    binding.add_symbol(symbol(function), pointer)
