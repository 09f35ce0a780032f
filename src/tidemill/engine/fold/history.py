"""Folding history: how long jobs ran that have ended, and how right their owners were."""

import numpy as np

from tidemill.model import history
from tidemill.model.columns import QUEUE
from tidemill.model.measures import ONE_PPM
from tidemill.model.tables import I64
from tidemill.model.world import World


def note_all(world: World, jobs: I64) -> None:
    """Count many jobs that have ended, none of them a service; as ``core.fold.note_end``."""
    jobs = jobs[world.jobs.ran_ms[jobs] > 0]
    if not len(jobs):
        return
    shapes, ran_ms = world.jobs.shape[jobs], world.jobs.ran_ms[jobs]
    queues = world.shapes.queue[shapes]
    milli = world.shapes.total_milli[: len(world.shape_rows)].tolist()
    sizes = np.array([history.size_of(one) for one in milli])[shapes]
    np.add.at(world.ink.w.run_times, (queues, sizes, history.steps_of(ran_ms)), 1)
    guess_ms = world.jobs.estimate_ms[jobs]
    told = np.flatnonzero(guess_ms)
    ratios = [
        max(1, ran * ONE_PPM // guess)
        for ran, guess in zip(ran_ms[told].tolist(), guess_ms[told].tolist(), strict=True)
    ]
    steps = history.steps_of(np.array(ratios, np.int64))
    np.add.at(world.ink.w.ratios, (queues[told], steps), 1)
    np.add.at(world.ink.w.queues[:, QUEUE.ENDED], queues, 1)
