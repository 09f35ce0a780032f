"""Compiled functions, cached on disk without ever being out of date.

Numba keeps compiled code beside a file until that file changes; it does not notice that a function
which it inlined came from another file that changed. So loops that reach across files are kept in a
folder named after everything they are made of.

Numba itself, which takes most of a second to load, waits until something must be compiled: what was
compiled before is loaded without it (``loading``). What one process is compiling, others wait for.
And within ``interpreting`` kernels that were never compiled on this machine run as plain Python,
with the same results.

Loops that allocate nothing are compiled without numba's counting of references (``_nrt``):
counting, atomically, every array of every tuple that is handed on took nine tenths of the time
(measured on a replay of 82,247 jobs: 1.66 s with it, 0.11 s without). They count rows from the
front only (``indexing``); with ``NUMBA_BOUNDSCHECK=1`` there is another cache, of kernels that
raise where an index is below zero or beyond the end.
"""

import fcntl
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from zlib import crc32

from tidemill.compiled import collecting

_NAME = "checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in {"", "0"} else "kernels"
_FOLDER = "CACHE_DIR"  # numba's documented setting, which it makes at run time
Whole = tuple[type[Any], tuple[int, ...], Mapping[str, str]]
"""A named tuple of arrays: the dimensions of its fields, and of what those are that are not of
int64.
"""
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}
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
    folder and of ``others``, where the kernels have their constants from: numba itself does not
    notice that a function or a constant of another file has changed.

    Each is compiled when Python first calls it, for exactly one list of types; those that it calls
    are part of it.
    """

    def types(function: Callable[..., Any]) -> tuple[Any, ...]:
        names = inspect.signature(function).parameters
        return tuple(_type(name, dimensions, whole) for name in names)

    options = {"_nrt": False, "error_model": "numpy"}  # nobody divides by zero, so nobody asks
    return _Kernels(_cache(where, _NAME, (where, *others)), options, types).take


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
    paths = (path, *(Path(str(other.__file__)) for other in others))
    options = {"inline": inline, "_nrt": allocates}
    return _Kernels(_cache(path.parent, path.stem, paths), options).take


def shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function to be compiled by itself, and not into each kernel that calls it.

    For what is large and called from several: handing over a few pointers costs it nothing. It
    returns an integer.
    """
    setattr(function, _SHARED, True)
    return function


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


def is_interpreting() -> bool:
    """Whether kernels that were never compiled on this machine run as plain Python now."""
    return _Kernels.may_interpret


class _Kernels:
    """Kernels whose compiled forms are kept in one folder."""

    may_interpret = False

    def __init__(
        self,
        cache: Path,
        options: dict[str, Any],
        types: Callable[[Callable[..., Any]], tuple[Any, ...]] | None = None,
    ) -> None:
        self.cache, self.options = cache, options
        self.types = types
        """Of a kernel's arguments; None: those that it is called with."""

    def take(self, function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a kernel, or the function
        """Take a kernel, to be compiled when it is called."""
        return function if INTERPRETED else _Kernel(function, self)

    @cached_property
    def were_kept(self) -> bool:
        """Whether any was compiled before, when this was asked first."""
        return any(True for _ in self.cache.rglob("*.nbi"))

    def is_at_work(self, function: Callable[..., Any]) -> bool:
        """Whether another process compiles this just now."""
        try:
            with self._lock(function).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _lock(self, function: Callable[..., Any]) -> Path:
        return self.cache / f"{function.__module__}.{function.__qualname__}.lock"

    @contextmanager
    def alone(self, function: Callable[..., Any]) -> Iterator[None]:
        """Wait until no other process compiles this: what it made is loaded then.

        Where the folder cannot be written numba keeps things elsewhere, and each process compiles
        for itself.
        """
        with ExitStack() as held:
            with suppress(OSError):
                self.cache.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context(self._lock(function).open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _Kernel:
    """A function that Python calls, or other kernels.

    For Python it is compiled, optimised with all that it calls, and kept on disk. For other kernels
    it is only translated: whoever calls it optimises it as a part of itself. So everything is
    optimised once for each kernel that Python calls, and not again at every level between.
    """

    def __init__(self, function: Callable[..., Any], kernels: _Kernels) -> None:
        self.function, self.kernels = function, kernels
        self._entry: Any = None
        """What Python calls, once all that it calls is there."""
        self._made: Any = None
        self._compiled_entry: Any = None
        self._inner: Any = None

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - what the kernel takes and returns
        if self._entry is None:
            if _Kernels.may_interpret and not self.kernels.were_kept:
                return self.function(*args)
            self.prepare()
        return self._entry(*args)

    @property
    def misses(self) -> int:
        """How often this process has compiled it for Python."""
        return 0 if self._made is None else int(sum(self._made.stats.cache_misses.values()))

    @property
    def is_kept(self) -> bool:
        """Whether it was compiled on this machine before."""
        function = self.function
        if self._file.exists():
            return True
        name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
        return any(True for _ in self.kernels.cache.glob(f"*/{name}-*.nbi"))

    @property
    def is_being_compiled(self) -> bool:
        """Whether another process compiles this just now."""
        return self.kernels.is_at_work(self.function)

    def prepare(self) -> None:
        """Compile this now, and whatever it calls, if it is not there yet."""
        if self._entry is None:
            self.prepare_alone()
            self._entry = self._compiled_entry
            for other in self._shared():
                other.prepare()

    def prepare_alone(self) -> None:
        """Compile this now; the shared kernels that it calls must be there when it is called."""
        if self._compiled_entry is not None:
            return
        from tidemill.compiled import loading  # noqa: PLC0415 - it loads LLVM

        for other in self._shared():
            loading.slot_of(other.function)
        found = loading.load(self._file, self.function) if self.kernels.types else None
        if found is None:
            self._made, self._compiled_entry = self._compiled()
            return
        self._compiled_entry = found.entry
        if self.is_shared:
            loading.publish(self.function, found.address)

    @property
    def _file(self) -> Path:
        """Where it is kept in the form that is loaded without numba."""
        function = self.function
        return self.kernels.cache / f"{function.__module__}.{function.__qualname__}.kernel"

    @property
    def is_shared(self) -> bool:
        """Whether it is compiled by itself, and not into those that call it."""
        return hasattr(self.function, _SHARED)

    def _shared(self) -> "dict[_Kernel, None]":
        """The shared kernels that this calls, or what is compiled into it."""
        found = dict[_Kernel, None]()
        seen, left = {self}, [self]
        while left:
            function = left.pop().function
            for name in function.__code__.co_names:
                other = function.__globals__.get(name)
                if isinstance(other, _Kernel) and other not in seen:
                    seen.add(other)
                    if other.is_shared:
                        found[other] = None
                    else:
                        left.append(other)
        return found

    def _compiled(self) -> tuple[Any, Any]:
        """What numba made, and what Python calls of it: compiled now, or loaded by numba.

        Where the types are known, numba need not look at what it is called with.
        """
        numba, kernels = _numba(), self.kernels
        before = getattr(numba.config, _FOLDER)
        setattr(numba.config, _FOLDER, str(kernels.cache))
        try:
            made = numba.njit(cache=True, no_cfunc_wrapper=True, **kernels.options)(self.function)
        finally:
            setattr(numba.config, _FOLDER, before)
        compile_one = made.compile

        def compile_or_wait(types: Any) -> Any:  # noqa: ANN401 - as above
            with kernels.alone(self.function), collecting.never():
                return compile_one(types)

        made.compile = compile_or_wait
        if kernels.types is None:
            return made, made
        from tidemill.compiled import linking, loading  # noqa: PLC0415 - as above
        from tidemill.compiled.indexing import from_the_front  # noqa: PLC0415 - as above

        types = kernels.types(self.function)
        with from_the_front():
            made.compile(types)
        self._made, found = made, made.overloads[types]

        if self.is_shared:
            loading.publish(self.function, linking.address_of(self.function, found))
        if self.misses:
            loading.keep(self._file, found)
        return made, found.entry_point

    def inner(self) -> Any:  # noqa: ANN401 - as above
        """The numba type of what other kernels call."""
        if not self.is_shared:
            return _numba().types.Dispatcher(self._translated())
        if self._inner is None:
            from tidemill.compiled import linking  # noqa: PLC0415 - as above

            assert self.kernels.types is not None, "a shared kernel's types follow from its names"
            self._inner = linking.stub(self.function, self.kernels.types(self.function))
        return self._inner

    def _translated(self) -> Any:  # noqa: ANN401 - as above
        """Compiled into others: of one list of types, if these are known."""
        if self._inner is None:
            numba, kernels = _numba(), self.kernels
            bare = (
                {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} if _can_translate() else {}
            )
            made = self._inner = numba.njit(**kernels.options, **bare)(self.function)
            compile_one, types = made.compile, kernels.types
            known = None if types is None else types(self.function)

            def translate(called: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
                types = known or tuple(numba.types.unliteral(each) for each in called)
                if types in made.overloads:
                    return made.overloads[types].entry_point
                with _translating(numba) if bare else nullcontext():
                    return compile_one(types)

            made.compile = translate
        return self._inner


@cache
def _numba() -> Any:  # noqa: ANN401 - a module without types
    """Numba, which knows from now on what a kernel is for another."""
    import numba  # noqa: PLC0415 - a process that calls no kernel does without
    from numba.core.codegen import CPUCodeLibrary  # noqa: PLC0415 - as above
    from numba.extending import typeof_impl  # noqa: PLC0415 - as above

    @typeof_impl.register(_Kernel)
    def _(kernel: _Kernel, _: object) -> Any:  # noqa: ANN401 - as above
        return kernel.inner()

    if not _can_translate():
        return numba
    _remember_calls(numba)
    finish, optimise = CPUCodeLibrary.finalize, CPUCodeLibrary._optimize_functions
    optimise_whole = CPUCodeLibrary._optimize_final_module

    def finalize(library: Any) -> None:  # noqa: ANN401 - as above
        if getattr(library, _PART, False):
            library._finalize_dynamic_globals()
            library._finalized = True
        else:
            library._linking_libraries = _parts(library)
            finish(library)

    def optimize_functions(library: Any, module: Any) -> None:  # noqa: ANN401 - as above
        if not _depth:
            optimise(library, module)

    def optimize_final_module(library: Any) -> None:  # noqa: ANN401 - as above
        if any(getattr(part, _PART, False) for part in library._linking_libraries):
            _keep_to_itself(library._final_module)
        optimise_whole(library)

    setattr(CPUCodeLibrary, finish.__name__, finalize)
    setattr(CPUCodeLibrary, optimise.__name__, optimize_functions)
    setattr(CPUCodeLibrary, optimise_whole.__name__, optimize_final_module)
    return numba


def _remember_calls(numba: Any) -> None:  # noqa: ANN401 - as above
    """Have numba look up once what an operator makes of some types, and not for each line."""
    builtin = numba.types.functions.BaseFunction
    resolve = builtin.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:  # noqa: ANN401 - as above
        known, called = vars(self).setdefault("_tidemill_known", {}), (args, tuple(kws.items()))
        if called not in known:
            known[called] = resolve(self, context, args, kws)
        return known[called]

    setattr(builtin, resolve.__name__, get_call_type)


def _keep_to_itself(module: Any) -> None:  # noqa: ANN401 - as above
    """Let nobody but a kernel itself call what was linked into it.

    LLVM then knows all callers of each part: that none of them ever raises, which arguments are the
    same everywhere, and whom only one calls. A seventh of the time of an ordinary fleet's kernels.
    """
    for function in module.functions:
        if function.linkage.name == _LINKED:
            function.linkage = "internal"


def _parts(library: Any) -> list[Any]:  # noqa: ANN401 - as above
    """What is to be linked into a library: what it calls, and what that calls in turn."""
    found: dict[Any, None] = {}
    left = list(reversed(library._linking_libraries))
    while left:
        part = left.pop()
        if part not in found:
            found[part] = None
            if getattr(part, _PART, False):
                left += reversed(part._linking_libraries)
    return list(found)


@cache
def _can_translate() -> bool:
    """Whether numba has the insides that are known; if not, kernels are compiled the long way."""
    from numba.core.codegen import CPUCodeLibrary  # noqa: PLC0415 - as above
    from numba.core.types import functions  # noqa: PLC0415 - as above

    names = ("finalize", "_optimize_functions", "_optimize_final_module", "_get_module_for_linking")
    has_parts = all(hasattr(CPUCodeLibrary, name) for name in (*names, "_finalize_dynamic_globals"))
    return has_parts and hasattr(functions.BaseFunction, "get_call_type")


_PART = "_tidemill_part"
_LINKED = "linkonce_odr"  # what numba says of functions that come from another library
_SHARED = "_tidemill_shared"
_depth: list[None] = []


@contextmanager
def _translating(numba: Any) -> Iterator[None]:  # noqa: ANN401 - as above
    """Within this nothing is optimised, and nothing is made that could be run."""
    context = numba.core.registry.cpu_target.target_context
    run = vars(context).get("get_executable")

    def no_executable(library: Any, *_: object) -> object:  # noqa: ANN401 - as above
        setattr(library, _PART, True)
        return list[None]().append  # stands for it: numba wants something built in, and unique

    _depth.append(None)
    context.get_executable = no_executable
    try:
        yield
    finally:
        _depth.pop()
        if run is None:
            del context.get_executable
        else:
            context.get_executable = run


def _cache(where: Path, name: str, made_of: tuple[Path, ...]) -> Path:
    stamp = 0
    for path in (Path(__file__).parent, *made_of):
        stamp = crc32(_stamp(path).to_bytes(4), stamp)
    return where / "__pycache__" / f"{name}-{stamp:08x}"


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


def _type(
    name: str,
    dimensions: Callable[[str], int],
    whole: Mapping[str, Whole],
) -> Any:  # noqa: ANN401 - what numba calls a type
    from numba import types  # noqa: PLC0415 - as above

    def array(dims: int, of: str = "int64") -> Any:  # noqa: ANN401 - as above
        return types.Array(getattr(types, of), dims, "C") if dims else types.int64

    if name not in whole:
        return array(dimensions(name))
    from tidemill.compiled.handing import Handed  # noqa: PLC0415 - as above

    cls, dims, others = whole[name]
    fields: tuple[str, ...] = cls._fields
    made = [
        (field, array(each, others.get(field, "int64")))
        for field, each in zip(fields, dims, strict=True)
    ]
    return Handed(cls.__name__, tuple(made))
