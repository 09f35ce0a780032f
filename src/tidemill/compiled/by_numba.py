"""Loops that keep lists or make arrays: numba compiles them, for what they are called with."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.compiled import Kernel

_FOLDER = "CACHE_DIR"  # numba's documented setting, which it makes at run time


def kept(kernel: "Kernel") -> Any:  # noqa: ANN401 - without types
    """What Python calls: compiled now, or loaded."""
    numba = _numba()
    before = getattr(numba.config, _FOLDER)
    setattr(numba.config, _FOLDER, str(kernel.kernels.places[0]))
    try:
        made = numba.njit(cache=True, **kernel.kernels.options)(kernel.function)
    finally:
        setattr(numba.config, _FOLDER, before)
    compile_one = made.compile

    def compile_or_wait(types: Any) -> Any:  # noqa: ANN401 - as above
        with kernel.kernels.alone(kernel.function):
            return compile_one(types)

    made.compile = compile_or_wait
    return made


@cache
def _inner(kernel: "Kernel") -> Any:  # noqa: ANN401 - as above
    """What other such loops call."""
    return _numba().njit(**kernel.kernels.options)(kernel.function)


@cache
def _numba() -> Any:  # noqa: ANN401 - as above
    """Numba, which knows from now on what a kernel is for another."""
    import numba  # noqa: PLC0415 - a process that calls no such loop does without
    from numba.extending import typeof_impl  # noqa: PLC0415 - as above

    from tidemill.compiled import Kernel  # noqa: PLC0415 - it is what calls this

    @typeof_impl.register(Kernel)
    def _(kernel: Kernel, _: object) -> Any:  # noqa: ANN401 - as above
        return numba.types.Dispatcher(_inner(kernel))

    return numba
