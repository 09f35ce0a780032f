"""A module of LLVM: one kernel that Python calls, and everything that it calls."""

from typing import Any

import numpy as np

from tidemill.compiled.translating import door
from tidemill.compiled.translating.expressions import Callee
from tidemill.compiled.translating.functions import Function
from tidemill.compiled.translating.kinds import (
    ELEMENTS,
    INT,
    NOTHING,
    Array,
    KernelError,
    Kind,
    Value,
)


class Module:
    """Functions, constants, and what is found elsewhere."""

    def __init__(self, *, kernel_type: type[Any], is_checked: bool) -> None:
        self.is_checked = is_checked
        """Whether functions also return that an index was wrong."""
        self._kernel_type = kernel_type
        self._callees = dict[Any, Callee]()
        self._at_work = set[Any]()
        self._texts = list[str]()
        self._slots = dict[str, None]()
        self._constants = dict[bytes, str]()

    def text(self, kernel: Any, entry: str, entry_of_python: str) -> str:  # noqa: ANN401 - a kernel
        """The whole module."""
        callee = self._write(kernel, f'@"{entry}"', "")
        if kernel.is_shared and callee.returns != INT:
            raise KernelError(f"{entry} is shared, and returns {callee.returns} and no integer")
        call = door.write(callee, entry_of_python, self.made(callee.returns), self.is_checked)
        slots = (f"{slot} = external global ptr" for slot in self._slots)
        return "\n".join([*slots, *self._constants.values(), *self._texts, call, "!0 = !{}"])

    def is_kernel(self, thing: object) -> bool:
        """Whether this is something that kernels call."""
        return isinstance(thing, self._kernel_type)

    def made(self, kind: Kind) -> str:
        """What a function returns for LLVM that returns a kind."""
        parts = ("i1", *kind.parts) if self.is_checked else kind.parts
        match parts:
            case ():
                return "void"
            case (one,):
                return one
        return f"{{{', '.join(parts)}}}"

    def callee(self, kernel: Any) -> Callee:  # noqa: ANN401 - as above
        """A kernel that another calls."""
        if kernel.is_shared:
            slot = f'@"{kernel.symbol}"'
            self._slots[slot] = None
            return Callee(slot, kernel.takes, INT, is_shared=True)
        if kernel not in self._callees:
            if kernel in self._at_work:
                raise KernelError("kernels do not call themselves")
            self._at_work.add(kernel)
            name = f'@"{kernel.symbol}.{len(self._at_work)}"'
            self._callees[kernel] = self._write(kernel, name, "internal")
        return self._callees[kernel]

    def _write(self, kernel: Any, name: str, linkage: str) -> Callee:  # noqa: ANN401 - as above
        made = Function(self, kernel.function, kernel.takes)
        self._texts.append(made.write(name, linkage))
        return Callee(name, kernel.takes, made.returns or NOTHING)

    def constant_array(self, array: np.ndarray[Any, Any]) -> Value:
        """An array that a module names: its numbers stand in the code."""
        of = str(array.dtype)
        element = ELEMENTS.get(of)
        if element is None or element.stored != "i64":
            raise KernelError(f"an array of {of} is no constant")
        numbers = array.ravel().view(np.int64).tolist()
        key = array.tobytes()
        name = f"@constant.{len(self._constants)}"
        if key in self._constants:
            name = self._constants[key].partition(" ")[0]
        else:
            each = ", ".join(f"i64 {number}" for number in numbers)
            line = f"{name} = private constant [{len(numbers)} x i64] [{each}]"
            self._constants[key] = line
        return Value(Array(of, array.ndim), (name, *map(str, array.shape)))
