"""Kernels in memory: those that were compiled before are loaded, and nothing is compiled.

A compiled kernel is machine code in an object file, as any C compiler makes it; beside it stands
what it was made with and which symbols it needs. The linker of LLVM puts it in its place
(``llvmlite``), and what checks the arguments that Python gives is in the same file.

Where anything is not as it was when the kernel was compiled (LLVM, Python, numpy, the processor, a
symbol that is not there) nothing is loaded, and it is compiled again.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from llvmlite import binding

KNOWN = {
    "TypeError": TypeError,
    "IndexError": IndexError,
    "ndarray": np.ndarray,
    "tuple": tuple,
    "None": None,
}
"""Objects that compiled code knows by their addresses, as ``tidemill.NAME``."""
_BY_PLACE = 0x80  # of Python's: arguments as an array of pointers, and their number
_RELOCATION = "static" if binding.get_process_triple().startswith("x86") else "default"


class Loaded(NamedTuple):
    """A kernel in memory: what Python calls, and where other kernels call it."""

    entry: Callable[..., Any]
    address: int


def make(
    paths: Sequence[Path], function: Callable[..., Any], text: Callable[[str, str], str]
) -> Loaded:
    """Compile a kernel and write it down, where that can be done first; else it is not kept.

    ``text`` is its module in LLVM's language, by what kernels and Python call it.
    """
    from tidemill.compiled.translating.assembling import assemble  # noqa: PLC0415 - seldom needed

    code, needs = assemble(text(*_names(function)), _machine())
    head = {"made_with": _made_with(), "needs": needs, "checksum": crc32(code)}
    for path in paths:
        own = path.with_name(f"{path.name}.{os.getpid()}")
        with suppress(OSError):
            own.write_bytes(json.dumps(head).encode() + b"\n" + code)
            own.replace(path)
            break
    return _put(code, function)


def load(paths: Sequence[Path], function: Callable[..., Any]) -> Loaded | None:
    """A kernel that was kept, ready to be called; None: there is none that would run here."""
    found = (_load(path, function) for path in paths)
    return next((one for one in found if one is not None), None)


def _load(path: Path, function: Callable[..., Any]) -> Loaded | None:
    try:
        first, _, code = path.read_bytes().partition(b"\n")
        head = json.loads(first)
    except (OSError, ValueError):
        return None
    if head["made_with"] != _made_with() or head["checksum"] != crc32(code):
        return None
    _know_python()
    if any(binding.address_of_symbol(name) is None for name in head["needs"]):
        return None
    return _put(code, function)


def _put(code: bytes, function: Callable[..., Any]) -> Loaded:
    """Put machine code in its place."""
    _know_python()
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    by_kernels, by_python = _names(function)
    name, doc = function.__name__.encode(), (function.__doc__ or "").encode()
    method = _Method(name, engine.get_function_address(by_python), _BY_PLACE, doc)
    entry = _new_function(ctypes.byref(method), (engine, method), function.__module__)
    _methods.append(method)
    return Loaded(entry, engine.get_function_address(by_kernels))


class _Method(ctypes.Structure):
    """What Python knows of a function that is not written in Python (``PyMethodDef``)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_methods = list[_Method]()
"""Python reads them as long as it runs."""
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


def _names(function: Callable[..., Any]) -> tuple[str, str]:
    """What kernels and what Python call."""
    symbol = f"{function.__module__}.{function.__qualname__}"
    return f"{symbol}.kernel", f"{symbol}.entry"


def slot_of(symbol: str) -> ctypes.c_void_p:
    """Where others read where a shared kernel lies; the linker knows it from now on."""
    if symbol not in _slots:
        _slots[symbol] = ctypes.c_void_p()
        binding.add_symbol(symbol, ctypes.addressof(_slots[symbol]))
    return _slots[symbol]


_slots: dict[str, ctypes.c_void_p] = {}


def publish(symbol: str, address: int) -> None:
    """Write where a shared kernel lies."""
    slot_of(symbol).value = address


@cache
def _made_with() -> list[str]:
    """Everything that must be the same for machine code to run."""
    llvm = ".".join(map(str, binding.llvm_version_info))
    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    return [sys.version, np.__version__, llvm, binding.get_process_triple(), processor]


@cache
def _know_python() -> None:
    """Have linkers know what the process has (a first one sees to that), and some objects."""
    _machine()
    _engine()
    for name, value in KNOWN.items():
        binding.add_symbol(f"tidemill.{name}", id(value))


@cache
def _machine() -> Any:  # noqa: ANN401 - of LLVM, without types
    """What code is made for: this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=2,
        reloc=_RELOCATION,
        codemodel="jitdefault",
        jit=True,
    )


def _engine() -> Any:  # noqa: ANN401 - as above
    """A linker of its own: two kernels may have compiled parts of one name.

    From the first on, the linkers know what the process itself has.
    """
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=binding.get_host_cpu_name(), reloc=_RELOCATION, codemodel="jitdefault", jit=True
    )
    empty = binding.parse_assembly("")
    empty.triple = binding.get_process_triple()
    return binding.create_mcjit_compiler(empty, machine)
