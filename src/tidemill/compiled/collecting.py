"""How often Python looks for garbage in cycles: seldom in a run, and not while it compiles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_AT_MOST = 50_000, 20, 50
"""Objects, and looks at the young ones, between looks for garbage in cycles. Nearly everything that
a run makes is needed to its end: with Python's own limits a fifth of an import went into looking
(82,247 jobs, November 2026), and a twentieth of a simulation.
"""


@contextmanager
def seldom() -> Iterator[None]:
    """Within this garbage is looked for as seldom as above, or as seldom as it is already."""
    before = gc.get_threshold()
    gc.set_threshold(*map(max, NEW_AT_MOST, before))
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def never() -> Iterator[None]:
    """Within this no garbage is looked for: what a compiler makes is needed to its end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def kept() -> Iterator[None]:
    """Within this no garbage is looked for, nor ever in what was made then: a command needs it."""
    with never():
        yield
        gc.freeze()
