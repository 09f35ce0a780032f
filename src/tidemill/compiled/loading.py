"""Kernels that were compiled before are loaded without numba.

Numba takes a second to load itself and to learn what all operators mean, which only a compiler
needs. A compiled kernel is machine code in an object file, as any C compiler makes it; beside it
stands what it was made with and which symbols it needs. The linker of LLVM puts it in its place
(``llvmlite``, which numba stands on), and what checks the arguments that Python gives is in the
same file. Of numba only two extension modules are loaded, which that code calls.

Where anything is not as it was when the kernel was compiled (numba, LLVM, Python, the processor, a
symbol that is not there) nothing is loaded, and numba compiles.
"""

import builtins
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from zlib import crc32

from llvmlite import binding

_EXTENSIONS = ("_helperlib", "_dynfunc")


class Loaded(NamedTuple):
    """A kernel in memory: what Python calls, and where other kernels call it."""

    entry: Callable[..., Any]
    address: int


def keep(path: Path, compiled: Any) -> None:  # noqa: ANN401 - what numba made
    """Write down what numba compiled; where nothing can be written, nothing is kept."""
    library, described = compiled.library, compiled.fndesc
    code: bytes = library._get_compiled_object()
    head = {
        "made_with": _made_with(),
        "entry": described.llvm_cpython_wrapper_name,
        "function": described.llvm_func_name,
        "environment": described.env_name,
        "needs": _needs(library._final_module),
        "checksum": crc32(code),
    }
    own = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        own.write_bytes(json.dumps(head).encode() + b"\n" + code)
        own.replace(path)


def load(path: Path, function: Callable[..., Any]) -> Loaded | None:
    """A kernel that was kept, ready to be called; None: there is none that would run here."""
    try:
        first, _, code = path.read_bytes().partition(b"\n")
        head = json.loads(first)
    except (OSError, ValueError):
        return None
    if head["made_with"] != _made_with() or head["checksum"] != crc32(code):
        return None
    extensions, engine = _extensions(), _engine()
    if any(binding.address_of_symbol(name) is None for name in head["needs"]):
        return None
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    made = extensions["_dynfunc"]
    environment = made.Environment(function.__globals__)
    if place := engine.get_global_value_address(head["environment"]):
        ctypes.c_void_p.from_address(place).value = id(environment)
    entry = made.make_function(
        sys.modules[function.__module__],
        function.__name__,
        function.__doc__ or "",
        engine.get_function_address(head["entry"]),
        environment,
        (engine,),
    )
    return Loaded(entry, engine.get_function_address(head["function"]))


def symbol(function: Callable[..., Any]) -> str:
    """What the slot of a shared kernel is called by the linker."""
    return f"{function.__module__}.{function.__qualname__}"


def slot_of(function: Callable[..., Any]) -> ctypes.c_void_p:
    """Where others read where a shared kernel lies; the linker knows it from now on."""
    name = symbol(function)
    if name not in _slots:
        _slots[name] = ctypes.c_void_p()
        binding.add_symbol(name, ctypes.addressof(_slots[name]))
    return _slots[name]


_slots: dict[str, ctypes.c_void_p] = {}


def publish(function: Callable[..., Any], address: int) -> None:
    """Write where a shared kernel lies."""
    slot_of(function).value = address


def _needs(module: Any) -> Sequence[str]:  # noqa: ANN401 - a module of LLVM
    """The symbols that a module takes from elsewhere; those of LLVM's own are not symbols."""
    every = (*module.functions, *module.global_variables)
    return sorted(one.name for one in every if one.is_declaration and one.name[:5] != "llvm.")


@cache
def _made_with() -> list[str]:
    """Everything that must be the same for machine code to run."""
    files = [_file(name) for name in _EXTENSIONS]
    stamps = [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    features = binding.get_host_cpu_features().flatten()
    processor = f"{binding.get_process_triple()} {binding.get_host_cpu_name()} {features}"
    llvm = ".".join(map(str, binding.llvm_version_info))
    return [sys.version, *stamps, llvm, processor]


@cache
def _file(name: str) -> Path:
    """The file of an extension module of numba, which is found without loading numba."""
    found = importlib.util.find_spec("numba")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        for folder in folders:
            if (path := Path(folder) / f"{name}{suffix}").exists():
                return path
    raise FileNotFoundError(name)


@cache
def _extensions() -> dict[str, ModuleType]:
    """The extension modules that compiled code calls; the linker knows their functions then."""
    made = {name: _extension(name) for name in _EXTENSIONS}
    binding.add_symbol("_Py_NoneStruct", id(None))
    for module in made.values():
        for name, address in module.c_helpers.items():
            binding.add_symbol(f"numba_{name}", address)
    for value in vars(builtins).values():
        if isinstance(value, type) and issubclass(value, BaseException):
            binding.add_symbol(f"PyExc_{value.__name__}", id(value))
    return made


def _extension(name: str) -> ModuleType:
    """One of them, as ``import`` would load it, without the package around it."""
    if (there := sys.modules.get(f"numba.{name}")) is not None:
        return there
    spec = importlib.util.spec_from_file_location(f"numba.{name}", _file(name))
    assert spec is not None, "an extension module has a loader"
    assert spec.loader is not None, "an extension module has a loader"
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@cache
def _target() -> Any:  # noqa: ANN401 - of LLVM, without types
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())


def _engine() -> Any:  # noqa: ANN401 - as above
    """A linker of its own: two kernels may have compiled parts of one name.

    From the first on, the linkers know what the process itself has.
    """
    machine = _target().create_target_machine(
        cpu=binding.get_host_cpu_name(), reloc="static", codemodel="jitdefault", jit=True
    )
    empty = binding.parse_assembly("")
    empty.triple = binding.get_process_triple()
    return binding.create_mcjit_compiler(empty, machine)
