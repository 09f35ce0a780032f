"""The example plug-ins, added for one test."""

from collections.abc import Iterator

import pytest

from tests.plugins.added import added


@pytest.fixture
def plugins() -> Iterator[None]:
    """All example plug-ins, each as its file adds it."""
    with added():
        yield
