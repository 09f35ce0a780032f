"""What kernels do with their arguments, against what their names make of them.

The decorators of kernels give types by names: an argument called like a field of the state is that
matrix, everything else one integer. Nobody is told when an integer happens to be called like a
matrix. So each use is read off the text: what is subscripted, measured or looped over is an array,
what is added, compared or counted to is an integer, and what is handed on is what the callee's
argument is.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidemill.compiled import Kernel

SOURCE = Path(__file__).parents[2] / "src"
WHOLE = -1  # dimensions of a named tuple of arrays


class Argument(NamedTuple):
    """An argument of a kernel, and how many dimensions its name gives it; 0: an integer."""

    name: str
    dimensions: int


def kernels() -> Iterator[tuple[str, Kernel]]:
    """Every kernel, by its module and name."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "@kernel\n" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for thing in vars(importlib.import_module(name)).values():
            if isinstance(thing, Kernel) and thing.function.__module__ == name:
                yield f"{name}.{thing.function.__name__}", thing


def arguments(kernel: Kernel) -> list[Argument]:
    """The arguments of a kernel with their dimensions."""
    names = inspect.signature(kernel.function).parameters
    given = zip(names, kernel.takes, strict=True)
    return [Argument(name, _dimensions(kind)) for name, kind in given]


def _dimensions(kind: object) -> int:
    return int(getattr(kind, "ndim", 0 if str(kind) == "int64" else WHOLE))


def findings(kernel: Kernel) -> Iterator[str]:
    """What a kernel does with an argument that its name does not allow."""
    function = ast.parse(inspect.getsource(kernel.function)).body[0]
    given = {argument.name: argument.dimensions for argument in arguments(kernel)}
    parents = {inner: node for node in ast.walk(function) for inner in ast.iter_child_nodes(node)}
    rebound = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in given and isinstance(node.ctx, ast.Load):
            dimensions, parent = given[node.id], parents[node]
            said = _use(node, parent, kernel.function.__globals__)
            is_array = dimensions != 0
            if said is INTEGER and is_array:
                yield f"`{node.id}` is used as an integer, and its name is that of a matrix"
            elif said is ARRAY and not is_array:
                yield f"`{node.id}` is used as an array, and its name is that of an integer"
            elif isinstance(said, Argument) and said.dimensions != dimensions:
                yield f"`{node.id}` is handed on as `{said.name}`, which is something else"
    for name in sorted(rebound & {name for name, dimensions in given.items() if dimensions}):
        yield f"`{name}` is set, and its name is that of a matrix"


INTEGER, ARRAY = object(), object()


def _use(node: ast.Name, parent: ast.AST, names: dict[str, object]) -> object:
    """How one use takes a name: as an integer, an array, a callee's argument; None: either."""
    match parent:
        case ast.Subscript(value=value) if value is node:
            return ARRAY
        case ast.Attribute():
            return ARRAY
        case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Subscript() | ast.AugAssign():
            return INTEGER
        case ast.Call(func=ast.Name(id="len")):
            return ARRAY
        case ast.Call(func=ast.Name(id=("range" | "min" | "max" | "abs" | "int"))):
            return INTEGER
        case ast.Call(func=ast.Name(id=called), args=args) if node in args:
            callee = names.get(called)
            if isinstance(callee, Kernel):
                return arguments(callee)[args.index(node)]
    return None
