"""Compiled functions, cached on disk without ever being out of date.

Kernels are written in a little of Python: loops over columns of integers. ``translating`` reads
that text and LLVM makes machine code of it, in seconds for a whole scheduling cycle. It is kept in
a folder named after everything that it is made of, and loaded by the next process (``loading``).
What one process is compiling, others wait for. And within ``interpreting`` kernels that were never
compiled on this machine run as plain Python, with the same results.

Kernels allocate nothing, count no references and take indices as they are: rows are counted from
the front. With ``TIDEMILL_BOUNDSCHECK=1`` there is another cache, of kernels that raise where an
index is below zero or beyond the end.
"""

import fcntl
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

from tidemill.compiled import collecting


def _is_on(*names: str) -> bool:
    """Whether one of these switches is on: ours, or what numba called it when it compiled these."""
    return any(os.environ.get(name, "0") not in {"", "0"} for name in names)


_IS_CHECKED = _is_on("TIDEMILL_BOUNDSCHECK", "NUMBA_BOUNDSCHECK")
_NAME = "checked" if _IS_CHECKED else "kernels"
_SHARED = "_tidemill_shared"
Whole = tuple[type[Any], tuple[int, ...], Mapping[str, str]]
"""A named tuple of arrays: the dimensions of its fields, and of what those are that are not of
int64.
"""
INTERPRETED = _is_on("TIDEMILL_INTERPRETED", "NUMBA_DISABLE_JIT")
"""Whether kernels run as plain Python: slow, and every line of them can be stepped through."""


def folder(
    where: Path,
    *others: Path,
    dimensions: Callable[[str], int],
    whole: Mapping[str, "Whole"],
) -> Callable[[Any], Any]:
    """The decorator for all kernels of a folder, which may call each other across its files.

    ``dimensions`` says by its name how many dimensions an argument has (0: it is an integer),
    ``whole`` which arguments are named tuples of arrays. The cache is named after all files of the
    folder and of ``others``, where the kernels have their constants from.

    Each is compiled when Python first calls it, for exactly one list of kinds; those that it calls
    are part of it.
    """

    def kinds(function: Callable[..., Any]) -> tuple[Any, ...]:
        names = inspect.signature(function).parameters
        return tuple(_kind(name, dimensions, whole) for name in names)

    return Kernels(_places(where, _NAME, (where, *others)), kinds).take


def shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function to be compiled by itself, and not into each kernel that calls it.

    For what is large and called from several: handing over a few pointers costs it nothing. It
    returns an integer. Others read where it lies when they call it, from a slot that the linker
    finds by name; so all may be compiled in any order, and by several processes at once.
    """
    setattr(function, _SHARED, True)
    return function


@contextmanager
def interpreting() -> Iterator[None]:
    """Within this, kernels that were never compiled on this machine run as plain Python.

    For a single question: to compile what it calls would take longer than to answer it.
    """
    before, Kernels.may_interpret = Kernels.may_interpret, True
    try:
        yield
    finally:
        Kernels.may_interpret = before


def is_interpreting() -> bool:
    """Whether kernels that were never compiled on this machine run as plain Python now."""
    return Kernels.may_interpret


class Kernels:
    """Kernels whose compiled forms are kept in one folder."""

    may_interpret = False

    def __init__(
        self,
        places: tuple[Path, ...],
        kinds: Callable[[Callable[..., Any]], tuple[Any, ...]],
    ) -> None:
        self.places = places
        """Where they are kept: beside their files; where that cannot be written, at home."""
        self.kinds = kinds
        """Of a kernel's arguments."""

    def take(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a kernel, or the function
        """Take a kernel, to be compiled when it is called."""
        return function if INTERPRETED else Kernel(function, self)

    @cached_property
    def were_kept(self) -> bool:
        """Whether any was compiled before, when this was asked first."""
        return any(True for place in self.places for _ in place.glob("*.kernel"))

    def is_at_work(self, function: Callable[..., Any]) -> bool:
        """Whether another process compiles this just now."""
        for place in self.places:
            try:
                with self._lock(place, function).open("r") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except FileNotFoundError:
                continue
            except OSError:
                return True
        return False

    @staticmethod
    def _lock(place: Path, function: Callable[..., Any]) -> Path:
        return place / f"{_symbol(function)}.lock"

    @contextmanager
    def alone(self, function: Callable[..., Any]) -> Iterator[None]:
        """Wait until no other process compiles this: what it made is loaded then.

        Where nothing can be written each process compiles for itself.
        """
        with ExitStack() as held:
            for place in self.places:
                with suppress(OSError):
                    place.mkdir(parents=True, exist_ok=True)
                    lock = held.enter_context(self._lock(place, function).open("w"))
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    break
            held.enter_context(collecting.never())
            yield


class Kernel:
    """A function that Python calls, or other kernels.

    What Python calls is compiled with all that it calls, optimised as a whole, and kept on disk.
    """

    def __init__(self, function: Callable[..., Any], kernels: Kernels) -> None:
        self.function, self.kernels = function, kernels
        self.symbol = _symbol(function)
        """What the linker calls it."""
        self._entry: Any = None
        """What Python calls, once all that it calls is there."""
        self._compiled: Any = None
        self.misses = 0
        """How often this process has compiled it."""

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - what the kernel takes and returns
        if self._entry is None:
            if Kernels.may_interpret and not self.kernels.were_kept:
                return self.function(*args)
            self.prepare()
        return self._entry(*args)

    @property
    def is_kept(self) -> bool:
        """Whether it was compiled on this machine before."""
        return any(path.exists() for path in self._files)

    @property
    def is_being_compiled(self) -> bool:
        """Whether another process compiles this just now."""
        return self.kernels.is_at_work(self.function)

    @cached_property
    def takes(self) -> tuple[Any, ...]:
        """The kinds of its arguments."""
        return self.kernels.kinds(self.function)

    @property
    def is_shared(self) -> bool:
        """Whether it is compiled by itself, and not into those that call it."""
        return hasattr(self.function, _SHARED)

    def prepare(self) -> None:
        """Compile this now, and whatever it calls, if it is not there yet."""
        if self._entry is None:
            self.prepare_alone()
            self._entry = self._compiled
            for other in self._shared():
                other.prepare()

    def prepare_alone(self) -> None:
        """Compile this now; the shared kernels that it calls must be there when it is called."""
        if self._compiled is not None:
            return
        from tidemill.compiled import loading  # noqa: PLC0415 - it loads LLVM

        for other in self._shared():
            loading.slot_of(other.symbol)
        found = loading.load(self._files, self.function)
        if found is None:
            with self.kernels.alone(self.function):
                found = loading.load(self._files, self.function) or self._translated()
        self._compiled = found.entry
        if self.is_shared:
            loading.publish(self.symbol, found.address)

    def _translated(self) -> Any:  # noqa: ANN401 - what was loaded
        """Compile this, and keep it."""
        from tidemill.compiled import loading  # noqa: PLC0415 - as above
        from tidemill.compiled.translating.modules import Module  # noqa: PLC0415 - seldom needed

        self.misses += 1
        module = Module(kernel_type=Kernel, is_checked=_IS_CHECKED)
        return loading.make(self._files, self.function, lambda *names: module.text(self, *names))

    @property
    def _files(self) -> tuple[Path, ...]:
        """Where it may be kept."""
        return tuple(place / f"{self.symbol}.kernel" for place in self.kernels.places)

    def _shared(self) -> "dict[Kernel, None]":
        """The shared kernels that this calls, or what is compiled into it."""
        found = dict[Kernel, None]()
        seen, left = {self}, [self]
        while left:
            function = left.pop().function
            for name in function.__code__.co_names:
                other = function.__globals__.get(name)
                if isinstance(other, Kernel) and other not in seen:
                    seen.add(other)
                    if other.is_shared:
                        found[other] = None
                    else:
                        left.append(other)
        return found


def _symbol(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _places(where: Path, name: str, made_of: tuple[Path, ...]) -> tuple[Path, ...]:
    """Folders for what is compiled of these files: beside them, and at home."""
    stamp = 0
    for path in (Path(__file__).parent, *made_of):
        stamp = crc32(_stamp(path).to_bytes(4), stamp)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - it never fails
    called = f"{name}-{stamp:08x}"
    return where / "__pycache__" / called, Path(home) / "tidemill" / called


@cache
def _stamp(path: Path) -> int:
    """What a file holds, or all Python files below a folder: read once, several are made of it."""
    if path.is_file():
        return crc32(path.read_bytes())
    stamp = 0
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted(name for name in names if name.endswith(".py")):
            stamp = crc32((Path(folder) / name).read_bytes(), crc32(name.encode(), stamp))
    return stamp


def _kind(name: str, dimensions: Callable[[str], int], whole: Mapping[str, Whole]) -> Any:  # noqa: ANN401 - a kind
    from tidemill.compiled.translating import kinds  # noqa: PLC0415 - only a compiler needs them

    if name not in whole:
        dims = dimensions(name)
        return kinds.Array("int64", dims) if dims else kinds.INT
    cls, each, others = whole[name]
    return kinds.table(cls.__name__, cls._fields, each, tuple(others.items()))
