"""The house rules that no linter knows: each is a function from one file to its findings.

A rule reads a `Source` and yields one line per finding, `path:line: X is banned, use Y`. It does
not know which files it is run over, except where the place of a file is what the rule is about.
Patterns are spelt so that they do not match themselves (`T[O]DO`).
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TypeGuard

LONGEST_FILE_LINES = 600  # four times the usual file; beyond it a file has two subjects
VAGUE_NAMES = frozenset({"utils", "common", "helpers", "misc", "manager"})
CORE = frozenset(
    {"model", "units", "reservation", "provisioning", "scheduling", "workload", "engine"}
)

NOTE_TO_SELF = re.compile(r"#.*\b(T[O]DO|F[I]XME)\b")
# Registries that resolvers write into lock files; they differ from site to site.
REGISTRY = re.compile(
    r"pyp[i]\.org|pythonhoste[d]\.org|npmj[s]\.(?:org|com)|yarnpk[g]\.com|deb\.debia[n]\.org"
    r"|crate[s]\.io|proxy\.golan[g]\.org|conda\.anacond[a]\.org"
)
MACHINE_PATH = re.compile(r"(?<![\w.~$})-])/(?:home|root|Users|work)/\w")


@dataclass(frozen=True)
class Source:
    """One file: its path from the repository root, and its text."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @property
    def is_python(self) -> bool:
        return self.path.suffix == ".py"

    def is_under(self, folder: str) -> bool:
        return self.path.is_relative_to(folder)

    def at(self, line: int, message: str) -> str:
        return f"{self.path}:{line}: {message}"


Rule = Callable[[Source], Iterator[str]]


def llvm_outside_compiled(source: Source) -> Iterator[str]:
    if source.is_under("src/tidemill/compiled"):
        return
    for line, module in _imports(source.tree):
        if module.split(".")[0] in {"llvmlite", "numba"}:
            yield source.at(line, "LLVM is banned here, use the decorator of a folder of kernels")


def careless_kernels(source: Source) -> Iterator[str]:
    """Options that make a compiled decision depend on the machine or on the order of threads."""
    for node in ast.walk(source.tree):
        match node:
            case ast.keyword(arg="fastmath" | "parallel" as option):
                yield source.at(node.value.lineno, f"{option} is banned, use ordered arithmetic")
            case ast.Name(id="prange") | ast.Attribute(attr="prange"):
                yield source.at(node.lineno, "prange is banned, use range")


def allocating_kernels(source: Source) -> Iterator[str]:
    """Kernels are compiled without counting references: what they made would never be freed."""
    for function in ast.walk(source.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        if "kernel" not in map(_last_name, function.decorator_list):
            continue
        for node in ast.walk(function):
            if _makes_something(node):
                yield source.at(node.lineno, "a new array is banned in a kernel, use scratch")


def _makes_something(node: ast.AST) -> TypeGuard[ast.expr]:
    match node:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name)):
            return name not in {"int64", "uint64"}
        case ast.Call(func=ast.Attribute(attr="copy" | "astype" | "tolist")):
            return True
    return False


def markup_outside_screen(source: Source) -> Iterator[str]:
    """Markup around a name that holds a bracket breaks; `styled` knows words from values."""
    if not source.is_under("src/tidemill/cli") or source.path.name == "screen.py":
        return
    for line, module in _imports(source.tree):
        if module.startswith(("rich.markup", "rich.console")):
            yield source.at(line, f"{module} is banned here, print with cli.screen")
    allowed = {
        id(part)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and _last_name(node) in {"styled", "example"}
        for part in ast.walk(node)
    }
    for node in ast.walk(source.tree):
        match node:
            case ast.Constant(value=str(text)) if "[/]" in text and id(node) not in allowed:
                yield source.at(node.lineno, "markup is banned here, use screen.styled")


def vague_names(source: Source) -> Iterator[str]:
    names = [*source.path.parent.parts, source.path.stem]
    for name in VAGUE_NAMES.intersection(names):
        yield source.at(1, f"`{name}` is banned as a name, use the domain's own word")


def prints(source: Source) -> Iterator[str]:
    if source.is_under("src/tidemill/cli"):
        return
    for line, name in _called_names(source.tree):
        if name == "print":
            yield source.at(line, "print is banned outside cli, return what is to be said")


def outside_reached_from_core(source: Source) -> Iterator[str]:
    """What the import contract cannot see: builtins, and chance inside numpy."""
    parts = source.path.parts
    if parts[:2] != ("src", "tidemill") or parts[2] not in CORE:
        return
    for line, name in _called_names(source.tree):
        if name in {"open", "input"}:
            yield source.at(line, f"{name} is banned in the core, read and write at the edge")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"np.random", "numpy.random"}:
            yield source.at(node.lineno, "chance is banned in the core, it lives in twin")
    for line, module in _imports(source.tree):
        if module.startswith("numpy.random"):
            yield source.at(line, "chance is banned in the core, it lives in twin")


def ink_outside_fold(source: Source) -> Iterator[str]:
    """`ink` is the writable side of the World's columns."""
    if source.is_under("src/tidemill/model") or source.is_under("src/tidemill/core"):
        return
    if source.path.match("src/tidemill/engine/fold/*.py"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "ink":
            yield source.at(node.lineno, "`.ink` is banned here, fold an event instead")


def notes_to_self(source: Source) -> Iterator[str]:
    for line, text in enumerate(source.text.splitlines(), start=1):
        if found := NOTE_TO_SELF.search(text):
            yield source.at(line, f"{found[1]} is banned, use an issue")


def bare_excepts(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield source.at(node.lineno, "bare except is banned, name what is expected")


def missing_module_docstring(source: Source) -> Iterator[str]:
    is_bare_package = source.path.name == "__init__.py" and not source.text.strip()
    if is_bare_package and not source.is_under("src"):
        return
    if not ast.get_docstring(source.tree):
        yield source.at(1, "a module without a docstring is banned, say what it answers")


def tests_without_fact(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_") and not ast.get_docstring(node):
            message = f"{node.name} has no docstring; state the fact that it proves"
            yield source.at(node.lineno, message)


def sleeps(source: Source) -> Iterator[str]:
    message = "time.sleep is banned in tests, wait for the event itself"
    for node in ast.walk(source.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                yield source.at(node.lineno, message)
            case ast.ImportFrom(module="time", names=names):
                if any(alias.name == "sleep" for alias in names):
                    yield source.at(node.lineno, message)


def long_files(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > LONGEST_FILE_LINES:
        message = f"{lines} lines; over {LONGEST_FILE_LINES} is banned, split it by subject"
        yield source.at(lines, message)


def registry_hosts(source: Source) -> Iterator[str]:
    yield from _matches(source, REGISTRY, "is banned, a registry is chosen by each machine")


def machine_paths(source: Source) -> Iterator[str]:
    yield from _matches(source, MACHINE_PATH, "is banned, use a path from the repository root")


def _matches(source: Source, pattern: re.Pattern[str], message: str) -> Iterator[str]:
    for line, text in enumerate(source.text.splitlines(), start=1):
        if found := pattern.search(text):
            yield source.at(line, f"`{found[0]}` {message}")


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)


def _called_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                yield node.lineno, name


def _last_name(decorator: ast.expr) -> str:
    match decorator:
        case ast.Call(func=func):
            return _last_name(func)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
