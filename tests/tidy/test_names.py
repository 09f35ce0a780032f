"""One name, one class: no two classes of the package are called the same."""

import ast
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.tidy.rules import Source
from tests.tidy.test_tidy import texts


def test_no_two_classes_have_one_name():
    """A reader who knows a name knows what it means; 80 names were used twice or more."""
    source = [source for source in texts() if source.is_python and source.is_under("src/tidemill")]
    assert used_twice(source) == []


def test_a_name_that_is_used_twice_is_found():
    """Also where one of the classes stands inside a function."""
    one = Source(PurePosixPath("a.py"), "class Row: ...\nclass Line: ...")
    two = Source(PurePosixPath("b.py"), "def f():\n    class Row: ...")
    assert used_twice([one]) == []
    assert used_twice([one, two]) == ["Row"]


def used_twice(sources: Iterable[Source]) -> list[str]:
    """The names of several classes, in the order of the alphabet."""
    seen, found = set[str](), set[str]()
    for source in sources:
        names = [node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
        found |= {name for i, name in enumerate(names) if name in seen or name in names[:i]}
        seen |= {*names}
    return sorted(found)


def test_no_two_columns_have_one_number():
    """Two branches that each add a column to a matrix may take the same one."""
    source = [source for source in texts() if source.is_python and source.is_under("src/tidemill")]
    assert [name for one in source for name in shared_numbers(one)] == []


def test_a_number_that_is_used_twice_is_found():
    """Of columns; names that are written out may be the same."""
    text = "class REG(IntEnum):\n    NOW = 0\n    DUE = 0\n\nclass ROW(IntEnum):\n    NOW = 0"
    assert shared_numbers(Source(PurePosixPath("a.py"), text)) == ["REG.DUE"]


def shared_numbers(source: Source) -> list[str]:
    """Columns whose number another of the same matrix has."""
    found: list[str] = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef) or "IntEnum" not in map(ast.unparse, node.bases):
            continue
        seen = set[object]()
        for line in node.body:
            match line:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=number)):
                    found += [f"{node.name}.{name}"] * (number in seen)
                    seen.add(number)
    return found
