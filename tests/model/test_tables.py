"""Column tables: equal lengths, room to grow, and sealed against everyone but fold."""

import numpy as np
import pytest

from tests.builders import fleet, job, submit
from tests.engine.audit import check
from tidemill.model import tables
from tidemill.model.columns import DEVICE, JOB, NODE, SHAPE
from tidemill.model.tables import Devices, Jobs, Nodes, Shapes
from tidemill.model.world import World

SEALED = ("jobs", "nodes", "devices", "contracts", "shapes")


@pytest.mark.parametrize("name", SEALED)
def test_no_column_of_the_world_can_be_written(name: str):
    """Numpy refuses to write into any column that the core can see."""
    table = getattr(fleet(), name)
    for column in table:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@pytest.mark.parametrize("name", ["levels", "used", "floor", "limit"])
def test_no_matrix_of_the_world_can_be_written(name: str):
    """Levels and shares are sealed too."""
    with pytest.raises(ValueError, match="read-only"):
        getattr(fleet(), name)[0, 0] = 1


def test_a_table_that_grew_is_sealed_again():
    """After more rows than there was room for, the core still reads all of them, and only reads."""
    world = fleet()
    submit(world, *(job(f"j{i}", priority=i) for i in range(500)))
    assert world.jobs.submit_ms[:500].tolist() == [0] * 500
    assert world.shapes.priority[:500].tolist() == list(range(500))
    for name in SEALED:
        assert not any(column.flags.writeable for column in getattr(world, name))


def test_what_fold_writes_the_core_sees():
    """Sealed columns are views of the memory that fold writes, not copies."""
    world = World()
    assert np.shares_memory(world.jobs.state, world.ink.jobs.state)


def test_growing_keeps_the_rows():
    """A grown table begins with the old rows, and has at least twice the room."""
    rows = np.zeros((4, len(Jobs._fields)), np.int64)
    rows[:, JOB.SHAPE] = [1, 2, 3, 4]
    grown = tables.of_matrix(Jobs, tables.grown(rows, 5))
    assert grown.shape[:4].tolist() == [1, 2, 3, 4]
    assert len(grown.shape) == 8
    check(grown, 8)


def test_tables_and_columns_name_the_same_facts():
    """The first columns of each matrix are those of its table, by the same names, in order."""
    for table, columns in ((Jobs, JOB), (Nodes, NODE), (Devices, DEVICE), (Shapes, SHAPE)):
        names = [column.name.lower() for column in columns]
        assert list(table._fields) == names[: len(table._fields)]
        assert [int(column) for column in columns] == list(range(len(columns)))


def test_check_finds_a_wrong_column():
    """A column of another type or length, or too few rows, fails the check."""
    table = tables.of_matrix(Jobs, np.zeros((4, len(Jobs._fields)), np.int64))
    wrong = [
        (table._replace(shape=np.zeros(4, np.uint8)), 4),
        (table._replace(state=np.zeros(3, np.int64)), 4),
        (table, 5),
    ]
    for bad, rows in wrong:
        with pytest.raises(AssertionError):
            check(bad, rows)
