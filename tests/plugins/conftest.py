"""The example plug-ins, added for one test."""

import runpy
from collections.abc import Iterator

import pytest

from tests.plugins.added import EXAMPLES, as_before


@pytest.fixture
def plugins() -> Iterator[None]:
    """All example plug-ins, each as its file adds it."""
    with as_before():
        for path in sorted(EXAMPLES.glob("*.py")):
            runpy.run_path(str(path))
        yield
