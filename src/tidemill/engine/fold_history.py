"""Folding history: how long jobs ran that have ended, and how right their owners were."""

import numpy as np

from tidemill.model import history
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import JobClass
from tidemill.model.tables import I32
from tidemill.model.world import World


def note(world: World, j: int) -> None:
    """Count a job that has ended, if it ran at all. Services do not end by themselves."""
    ran_ms, s = world.jobs.ran_ms.item(j), world.jobs.shape.item(j)
    if not ran_ms or world.shape_rows[s].kind is JobClass.INFERENCE:
        return
    q = world.shapes.queue.item(s)
    if q >= len(world.ended):
        _enlarge(world, len(world.queue_rows))
    size = history.size_of(world.shapes.total_milli.item(s))
    world.ink.run_times[q, size, history.step_of(ran_ms)] += 1
    guess_ms = world.jobs.estimate_ms.item(j)
    if guess_ms:
        world.ink.ratios[q, history.step_of(max(1, ran_ms * ONE_PPM // guess_ms))] += 1
    world.ended[q] += 1


def note_all(world: World, jobs: I32) -> None:
    """The same for many jobs at once, none of them a service."""
    jobs = jobs[world.jobs.ran_ms[jobs] > 0]
    if not len(jobs):
        return
    shapes, ran_ms = world.jobs.shape[jobs], world.jobs.ran_ms[jobs]
    queues = world.shapes.queue[shapes]
    if int(queues.max()) >= len(world.ended):
        _enlarge(world, len(world.queue_rows))
    milli = world.shapes.total_milli[: len(world.shape_rows)].tolist()
    sizes = np.array([history.size_of(one) for one in milli])[shapes]
    np.add.at(world.ink.run_times, (queues, sizes, history.steps_of(ran_ms)), 1)
    guess_ms = world.jobs.estimate_ms[jobs]
    told = np.flatnonzero(guess_ms)
    ratios = [
        max(1, ran * ONE_PPM // guess)
        for ran, guess in zip(ran_ms[told].tolist(), guess_ms[told].tolist(), strict=True)
    ]
    steps = history.steps_of(np.array(ratios, np.int64))
    np.add.at(world.ink.ratios, (queues[told], steps), 1)
    for q, count in enumerate(np.bincount(queues).tolist()):
        world.ended[q] += count


def _enlarge(world: World, teams: int) -> None:
    ink, old = world.ink, len(world.ended)
    run_times = np.zeros((teams, history.SIZES, history.STEPS), np.int32)
    ratios = np.zeros((teams, history.STEPS), np.int32)
    run_times[:old], ratios[:old] = ink.run_times, ink.ratios
    ink.run_times, ink.ratios = run_times, ratios
    world.ended += [0] * (teams - old)
    world.seal()
