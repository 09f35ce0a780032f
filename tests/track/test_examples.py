"""The loops that ship as examples call what `tidemill.track` has, whatever framework they need."""

import ast
import inspect
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidemill import track
from tidemill.track.run import TrackedRun

LOOPS = sorted((ROOT / "examples" / "track").rglob("*.py"))


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_its_calls_exist(path: Path):
    """Names of the module, of the run, and of their arguments; frameworks are not imported."""
    for call in (node for node in ast.walk(ast.parse(path.read_text())) if _is_ours(node)):
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Attribute)
        whose = track if _name(call.func.value) == "track" else TrackedRun
        called = inspect.signature(getattr(whose, call.func.attr))
        assert {word.arg for word in call.keywords if word.arg} <= {*called.parameters}, call.lineno


def _is_ours(node: ast.AST) -> bool:
    is_called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_called and _name(node.func.value) in ("track", "run")  # type: ignore[attr-defined]


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""
