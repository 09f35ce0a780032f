"""Compiled functions, cached on disk without ever being out of date.

Numba keeps compiled code beside a file until that file changes; it does not notice that a function
which it inlined came from another file that changed. So loops that reach across files are kept in a
folder named after everything they are made of.

Numba itself, which takes a third of a second to load, waits until Python calls a kernel. What one
process is compiling, others wait for. And within ``interpreting`` kernels that were never compiled
on this machine run as plain Python, with the same results.

Loops that allocate nothing are compiled without numba's counting of references (``_nrt``):
counting, atomically, every array of every tuple that is handed on took nine tenths of the time
(measured on a replay of 82,247 jobs: 1.66 s with it, 0.11 s without).
"""

import fcntl
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from zlib import crc32

_FOLDER = "CACHE_DIR"  # numba's documented setting, which it makes at run time
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}
"""Whether kernels run as plain Python: slow, and every line of them can be stepped through."""


def folder(
    where: Path,
    *others: Path,
    dimensions: Callable[[str], int],
    whole: Mapping[str, tuple[type, tuple[int, ...]]],
) -> Callable[[Any], Any]:
    """The decorator for all kernels of a folder, which may call each other across its files.

    ``dimensions`` says by its name how many dimensions an argument has (0: it is an integer),
    ``whole`` which arguments are named tuples of arrays. The cache is named after all files of the
    folder and of ``others``, where the kernels have their constants from: numba itself does not
    notice that a function or a constant of another file has changed.

    A kernel that was compiled before is not even loaded until Python calls it: those that it calls
    are part of it. One that was not is compiled with the first that is called, for exactly one list
    of types.
    """
    paths = sorted(path for some in (where, *others) for path in some.rglob("*.py"))

    def types(function: Callable[..., Any]) -> tuple[Any, ...]:
        names = inspect.signature(function).parameters
        return tuple(_type(name, dimensions, whole) for name in names)

    return _Kernels(_cache(where, "kernels", paths), {"_nrt": False}, [], types).take


def across(
    file: str,
    *others: ModuleType,
    inline: Literal["never", "always"] = "never",
    allocates: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """The decorator for a file of loops that call those of ``others``.

    ``others`` are the modules called, and those that they call in turn. With ``inline="always"`` a
    call costs nothing: handing over many arrays takes longer than a short function. Loops that
    make arrays of their own (sorting does) say so, and so must whoever calls them.
    """
    path = Path(file)
    paths = [path, *(Path(str(other.__file__)) for other in others)]
    options = {"inline": inline, "_nrt": allocates}
    return _Kernels(_cache(path.parent, path.stem, paths), options, _ACROSS).take


@contextmanager
def interpreting() -> Iterator[None]:
    """Within this, kernels that were never compiled on this machine run as plain Python.

    For a single question: to compile what it calls would take longer than to answer it.
    """
    before, _Kernels.may_interpret = _Kernels.may_interpret, True
    try:
        yield
    finally:
        _Kernels.may_interpret = before


class _Kernels:
    """Kernels whose compiled forms are kept in one folder, and those that they may call."""

    may_interpret = False

    def __init__(
        self,
        cache: Path,
        options: dict[str, Any],
        family: "list[_Later]",
        types: Callable[[Callable[..., Any]], tuple[Any, ...]] | None = None,
    ) -> None:
        self.cache, self.options, self.family = cache, options, family
        self.types = types
        """Of a kernel's arguments; None: those that it is called with."""

    def take(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a kernel, or the function
        """Take a kernel, to be made when the first of its family is called."""
        if INTERPRETED:
            return function
        kernel = _Later(function, self)
        self.family.append(kernel)
        return kernel

    @cached_property
    def were_kept(self) -> bool:
        """Whether any was compiled before, when this was asked first."""
        return bool(self.kept())

    def kept(self) -> set[str]:
        """The names of those that were compiled before, with the line where they begin."""
        return {path.name.split(".py")[0] for path in self.cache.rglob("*.nbi")}

    def compile(self, made: "list[_Later]") -> None:
        """Compile those whose types are known and that were not compiled before.

        What another process is compiling comes last, and is there by then: two share the work.
        """
        while self.types and (left := self._not_kept(made)):
            free = (kernel for kernel in left if not self._is_busy(kernel.function))
            kernel = next(free, left[0])
            kernel.compiled.compile(self.types(kernel.function))
            made = [other for other in left if other is not kernel]

    def _not_kept(self, made: "list[_Later]") -> "list[_Later]":
        kept = self.kept()
        return [kernel for kernel in made if kernel.name not in kept]

    def _is_busy(self, function: Callable[..., Any]) -> bool:
        """Whether a process is compiling this."""
        with suppress(OSError), self._lock(function).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        return self._lock(function).exists()

    def _lock(self, function: Callable[..., Any]) -> Path:
        return self.cache / f"{function.__module__}.{function.__qualname__}.lock"

    @contextmanager
    def _alone(self, function: Callable[..., Any]) -> Iterator[None]:
        """Wait until no other process compiles this: what it made is loaded then.

        Nobody waits in a circle: no kernel calls one that calls it. Where the folder cannot be
        written numba keeps things elsewhere, and each process compiles for itself.
        """
        with ExitStack() as held:
            with suppress(OSError):
                self.cache.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context(self._lock(function).open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def make(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401 - what numba returns
        """What compiles a kernel when it is called, or loads what was compiled before."""
        import numba  # noqa: PLC0415 - a process that calls no kernel does without

        before = getattr(numba.config, _FOLDER)
        setattr(numba.config, _FOLDER, str(self.cache))
        try:
            made = numba.njit(cache=True, **self.options)(function)
        finally:
            setattr(numba.config, _FOLDER, before)
        compile_one = made.compile

        def compile_or_wait(types: Any) -> Any:  # noqa: ANN401 - as above
            with self._alone(function):
                return compile_one(types)

        made.compile = compile_or_wait
        return made


class _Later:
    """A kernel that Python has not called yet."""

    def __init__(self, function: Callable[..., Any], kernels: _Kernels) -> None:
        self.function, self.kernels = function, kernels
        self.compiled: Any = None

    @property
    def name(self) -> str:
        """Under which numba keeps it."""
        module, line = self.function.__module__, self.function.__code__.co_firstlineno
        return f"{module.rpartition('.')[2]}.{self.function.__qualname__}-{line}"

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - what the kernel takes and returns
        if self.compiled is None:
            if _Kernels.may_interpret and not self.kernels.were_kept:
                return self.function(*args)
            _make_all(self.kernels.family)
        return self.compiled(*args)


_ACROSS: list[_Later] = []
"""What ``across`` decorated, in the order in which the modules were imported."""


def _make_all(family: list[_Later]) -> None:
    """Make what was taken so far; the modules then hold what was made."""
    new = [kernel for kernel in family if kernel.compiled is None]
    for kernel in new:
        kernel.compiled = kernel.kernels.make(kernel.function)
    for module in {kernel.function.__module__ for kernel in family}:
        for name, value in list(vars(sys.modules[module]).items()):
            if isinstance(value, _Later):
                if value.compiled is None:  # of another folder, whose kernels these call
                    _make_all(value.kernels.family)
                setattr(sys.modules[module], name, value.compiled)
    for kernels in {kernel.kernels for kernel in new}:
        kernels.compile([kernel for kernel in new if kernel.kernels is kernels])


def _cache(where: Path, name: str, made_of: list[Path]) -> Path:
    stamp = 0
    for path in made_of:
        stamp = crc32(path.read_bytes(), stamp)
    return where / "__pycache__" / f"{name}-{stamp:08x}"


def _type(
    name: str,
    dimensions: Callable[[str], int],
    whole: Mapping[str, tuple[type, tuple[int, ...]]],
) -> Any:  # noqa: ANN401 - what numba calls a type
    from numba import types  # noqa: PLC0415 - as above

    def array(dims: int) -> Any:  # noqa: ANN401 - as above
        return types.Array(types.int64, dims, "C") if dims else types.int64

    if name in whole:
        cls, dims = whole[name]
        if len(set(dims)) == 1:
            return types.NamedUniTuple(array(dims[0]), len(dims), cls)
        return types.NamedTuple([array(each) for each in dims], cls)
    return array(dimensions(name))
