"""Rows of shapes that are written before their first job comes: nobody can tell."""

import pytest

from tests.builders import job, queue, role, team
from tidemill.core import snapshot
from tidemill.engine.fold import jobs as fold_jobs
from tidemill.engine.fold.batch import Folding, fold_batch
from tidemill.engine.fold.one_event import fold_all
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.errors import EventRefused
from tidemill.model.rows import Job, Shape
from tidemill.model.world import World


def _asks(name: str, gpus: int, **said: object) -> Job:
    return job(name, roles=[role(gpus=gpus)], **said)  # type: ignore[arg-type]


def _teams() -> World:
    return fold_all(World(), [ev.QueueSet(0, team("a")), ev.QueueSet(0, team("b"))])


def _submitted(*rows: Job) -> list[ev.Event]:
    return [ev.JobSubmitted(1, row) for row in rows]


def test_jobs_of_new_shapes_are_folded_at_once():
    """One call folds them all, and the cluster state is that of events one by one."""
    events = _submitted(
        _asks("x", 1, team="a"), _asks("y", 2, team="a"), _asks("z", 1, team="b", priority=3),
        _asks("u", 1, team="b", priority=5), _asks("v", 2, team="a"),
    )  # fmt: skip
    world = _teams()
    folding = Folding(world, of_events(events, Dictionary()))
    assert folding.plain() == len(events)
    assert world.shape_count == len(world.shape_rows) == 4
    assert snapshot.digest(world) == snapshot.digest(fold_all(_teams(), events))


@pytest.mark.parametrize(
    "late",
    [
        _asks("late", 2, team="a", priority=-1),
        job("late", roles=[role(gpus=2, labels={"zone": "x"})], team="a"),
        job("late", roles=[role(2, gpus=2, least=1)], team="a"),
    ],
)
def test_a_shape_that_matters_to_others_comes_first(late: Job):
    """One that others may stop, that lets labels be seen or may grow has no rows ahead."""
    world = _teams()
    rows = [_asks("x", 1, team="a"), late, _asks("y", 4, team="b")]
    folding = Folding(world, of_events(_submitted(*rows), Dictionary()))
    assert folding.plain() == 1
    assert world.shape_rows == [rows[0].shape]
    folding.single()
    assert folding.plain() == 1
    assert snapshot.digest(world) == snapshot.digest(fold_all(_teams(), _submitted(*rows)))


def test_rows_ahead_are_no_part_of_the_state_and_may_be_withdrawn():
    """A dump does not show them, and another shape may come in their place."""
    world, shapes = _teams(), [_asks("x", gpus, team="a").shape for gpus in (1, 2, 4)]
    before = snapshot.digest(world)
    assert all(fold_jobs.foretell(world, shape) for shape in shapes)
    assert snapshot.digest(world) == before
    assert len(world.waiting) == len(world.active) == 0
    last = Job("y", shapes[2])
    assert snapshot.digest(fold_all(world, _submitted(last))) == snapshot.digest(
        fold_all(_teams(), _submitted(last))
    )
    assert (world.shape_rows, world.shape_number) == ([shapes[2]], {shapes[2]: 0})


def test_what_would_be_refused_has_no_rows_ahead():
    """Where a job in the middle is refused, what comes after it is not foreseen."""
    unknown = Shape("nobody", (role(gpus=1),))
    assert not fold_jobs.foretell(_teams(), unknown)
    world, rows = _teams(), [_asks("x", 1, team="a"), Job("y", unknown), _asks("z", 2, team="a")]
    with pytest.raises(EventRefused, match="nobody"):
        fold_batch(world, of_events(_submitted(*rows), Dictionary()))
    assert world.shape_rows == [rows[0].shape]


def test_nothing_is_foreseen_before_teams_are_declared():
    """A team that gets teams below it has no jobs, whatever came with it in one batch."""
    events = [
        ev.QueueSet(0, team("top")),
        ev.QueueSet(0, queue("low", parent="top")),
        *_submitted(_asks("x", 1, team="top")),
    ]
    with pytest.raises(EventRefused, match="teams below it"):
        fold_batch(World(), of_events(events, Dictionary()))
