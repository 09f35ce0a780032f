"""Compiled functions, cached on disk without ever being out of date.

Numba keeps compiled code beside a file until that file changes; it does not notice that a function
which it inlined came from another file that changed. So loops that reach across files are kept in a
folder named after everything they are made of.

Loops that allocate nothing are compiled without numba's counting of references (``_nrt``):
counting, atomically, every array of every tuple that is handed on took nine tenths of the time
(measured on a replay of 82,247 jobs: 1.66 s with it, 0.11 s without).
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
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
    are part of it. One that was not is compiled at once, for exactly one list of types.
    """
    if INTERPRETED:
        return lambda function: function
    stamp = 0
    for path in sorted(path for some in (where, *others) for path in some.rglob("*.py")):
        stamp = crc32(path.read_bytes(), stamp)
    cache = where / "__pycache__" / f"kernels-{stamp:08x}"
    return _Folder(cache, dimensions, whole).take


class _Later:
    """A kernel that Python has not called yet: numba takes a third of a second to load."""

    def __init__(self, function: Callable[..., Any], folder: "_Folder") -> None:
        self.function, self._folder = function, folder
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - what the kernel takes and returns
        if self.compiled is None:
            self._folder.compile_all()
        assert self.compiled is not None, "all kernels of the folder were compiled"
        return self.compiled(*args)


class _Folder:
    """The kernels of one folder, in the order in which their modules were imported."""

    def __init__(
        self,
        cache: Path,
        dimensions: Callable[[str], int],
        whole: Mapping[str, tuple[type, tuple[int, ...]]],
    ) -> None:
        self._cache, self._dimensions, self._whole = cache, dimensions, whole
        self._kernels: list[_Later] = []
        self._kept: set[str] | None = None
        """The names of kernels that were compiled before; None: nobody has called any yet."""

    def take(self, function: Callable[..., Any]) -> _Later:
        """Take a kernel, to be compiled when the first of the folder is called."""
        kernel = _Later(function, self)
        self._kernels.append(kernel)
        return kernel

    def compile_all(self) -> None:
        """Compile, or load, what was taken so far; modules then hold what was compiled."""
        if self._kept is None:
            self._kept = {path.name.split(".py")[0] for path in self._cache.rglob("*.nbi")}
        modules = [sys.modules[name] for name in {k.function.__module__ for k in self._kernels}]
        for kernel in self._kernels:
            if kernel.compiled is None:
                kernel.compiled = self._compile(kernel.function)
            for module in modules:
                for name, value in list(vars(module).items()):
                    if value is kernel:  # perhaps imported under another name
                        setattr(module, name, kernel.compiled)

    def _compile(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401 - what numba returns
        import numba  # noqa: PLC0415 - a process that calls no kernel does without

        options: dict[str, Any] = {"cache": True, "_nrt": False}
        line, module = function.__code__.co_firstlineno, function.__module__.rpartition(".")[2]
        if f"{module}.{function.__qualname__}-{line}" in (self._kept or ()):
            return _into(self._cache, numba.njit(**options), function)
        signature = tuple(self._type(name) for name in inspect.signature(function).parameters)
        return _into(self._cache, numba.njit(signature, **options), function)

    def _type(self, name: str) -> Any:  # noqa: ANN401 - what numba calls a type
        from numba import types  # noqa: PLC0415 - as above

        def array(dims: int) -> Any:  # noqa: ANN401 - as above
            return types.Array(types.int64, dims, "C") if dims else types.int64

        if name in self._whole:
            cls, dims = self._whole[name]
            return types.NamedTuple([array(each) for each in dims], cls)
        return array(self._dimensions(name))


def _into(cache: Path, decorate: Callable[..., Any], function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Decorate a function whose compiled form is kept in this folder."""
    from numba import config  # noqa: PLC0415 - as above

    before = getattr(config, _FOLDER)
    setattr(config, _FOLDER, str(cache))
    try:
        return decorate(function)
    finally:
        setattr(config, _FOLDER, before)


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
    stamp = 0
    for path in (file, *(str(other.__file__) for other in others)):
        stamp = crc32(Path(path).read_bytes(), stamp)
    folder = Path(file).parent / "__pycache__" / f"{Path(file).stem}-{stamp:08x}"

    options: dict[str, Any] = {"cache": True, "inline": inline, "_nrt": allocates}

    def decorate(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - what numba returns
        import numba  # noqa: PLC0415 - as above

        return _into(folder, numba.njit(**options), function)

    return decorate
