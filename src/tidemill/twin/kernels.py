"""A compiled stretch of the twin: jobs arrive, come up and finish, beat after beat.

The same as ``backend.Twin`` with ``attempts.Attempts`` and ``engine.loop.Loop`` when nothing but
the plain life of jobs happens; those are the oracle. The agenda is a heap in columns, ordered as
``agenda.Entry``: time, rank, serial.
"""

import numpy as np

from tidemill.compiled import across
from tidemill.engine import kernels as engine
from tidemill.engine.desk import kernels as desk
from tidemill.engine.desk.fitting import kernels as fitting
from tidemill.engine.kernels import (
    ARRIVED,
    EVENTS,
    FAILED,
    FINISHED,
    HEAP,
    IS_PAUSED,
    JOBS,
    NEXT_MIX,
    NOW,
    PIECES,
    PLACED_NOW,
    RUNNING,
    SERIAL,
    STARTING,
    WAITING_ALL,
)

compiled = across(__file__, desk, *desk.MADE_OF)
END_RANK, START_RANK = 2, 3  # agenda.JOB_END, agenda.JOB_START
SERIALS = 1 << 40  # a rank and a serial are one number: rank × SERIALS + serial
FINAL = 16  # above any kind of event: the failure that is one too many
OVER, FULL, AT_MIX, AFTER_MIX = range(4)
FOREVER = 1 << 62


@compiled
def push(at, heap, at_ms, rank, j, stamp, what):
    """Put what will happen to a job on the agenda; ``what`` says how it ends."""
    at[SERIAL] += 1
    order = rank * SERIALS + at[SERIAL]
    i = at[HEAP]
    at[HEAP] += 1
    while i > 0:
        up = (i - 1) >> 1
        if heap.at_ms[up] < at_ms or (heap.at_ms[up] == at_ms and heap.order[up] < order):
            break
        copy(heap, up, i)
        i = up
    heap.at_ms[i] = at_ms
    heap.order[i] = order
    heap.job[i] = j
    heap.stamp[i] = stamp
    heap.what[i] = what


@compiled
def copy(heap, origin, to):
    """Move one entry within the heap."""
    heap.at_ms[to] = heap.at_ms[origin]
    heap.order[to] = heap.order[origin]
    heap.job[to] = heap.job[origin]
    heap.stamp[to] = heap.stamp[origin]
    heap.what[to] = heap.what[origin]


@compiled
def pop(at, heap):
    """Take the first entry off the heap (read it before)."""
    last = at[HEAP] - 1
    at[HEAP] = last
    at_ms, order = heap.at_ms[last], heap.order[last]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= last:
            break
        right = down + 1
        if right < last and (
            heap.at_ms[right] < heap.at_ms[down]
            or (heap.at_ms[right] == heap.at_ms[down] and heap.order[right] < heap.order[down])
        ):
            down = right
        if at_ms < heap.at_ms[down] or (at_ms == heap.at_ms[down] and order < heap.order[down]):
            break
        copy(heap, down, i)
        i = down
    copy(heap, last, i)


@compiled
def run_ms(work_ms, interval_ms, cost_ms):
    """How long an undisturbed attempt takes; as ``workload.progress.run_ms``."""
    if interval_ms <= 0 or work_ms == 0:
        return work_ms
    return work_ms + (work_ms - 1) // interval_ms * cost_ms


@compiled
def push_end(at, heap, truth, jobs, now, j):
    """How and when an attempt that has just come up will end; as ``Attempts.start_due``."""
    work = max(1, truth.work_ms[j] - jobs.saved_ms[j])
    rest = run_ms(work, jobs.interval_ms[j], jobs.cost_ms[j])
    what = np.int64(truth.ending[j])
    if truth.crashes[j] == 0 and truth.crash_ms[j] > 0 and truth.crash_ms[j] < rest:
        rest, what = truth.crash_ms[j], np.int64(FAILED)
    is_final = truth.crashes[j] >= truth.retries[0]
    push(at, heap, now + rest, END_RANK, j, jobs.attempt[j], what + FINAL * is_final)


@compiled
def stretch(
    until_ms, arrivals, truth, startup, at, rules, jobs, nodes, devices, shapes, levels, used,
    limit, floor, counts, asks, options, trees, queues, aboard, memory, scratch, log, tables,
    behind, heap, pieces, lines,
):  # fmt: skip
    """Beat up to, not including, ``until_ms``; stop before a beat for which there is no room.

    Stop within a beat, before the cycle, when a look at the mix is due, and go on from there when
    called again; stop after that cycle, so that the next one may have other tables.
    """
    first_job = at[JOBS] - at[ARRIVED]
    room = len(lines.kind)
    slots = len(pieces.node)
    while True:
        if at[IS_PAUSED] == 0:
            now = FOREVER
            if at[HEAP] > 0:
                now = heap.at_ms[0]
            coming = at[ARRIVED]
            if coming < len(arrivals.at_ms) and arrivals.at_ms[coming] < now:
                now = arrivals.at_ms[coming]
            if now >= until_ms:
                return OVER
            together = coming
            while together < len(arrivals.at_ms) and arrivals.at_ms[together] == now:
                together += 1
            most = 2 * at[HEAP] + 2 * (at[WAITING_ALL] + together - coming) + len(shapes.queue)
            most += len(behind.first_job) + 1
            if at[EVENTS] + most > room or at[PIECES] + scratch.most_pieces[0] > slots:
                return FULL
            at[NOW] = now
            fitting.forget_log(at, trees, log)
            seen = 0
            while at[HEAP] > 0 and heap.at_ms[0] == now:
                j, stamp, rank = heap.job[0], heap.stamp[0], heap.order[0] // SERIALS
                what = heap.what[0] % FINAL
                is_final = heap.what[0] >= FINAL
                pop(at, heap)
                if rank == END_RANK and jobs.state[j] == RUNNING and jobs.attempt[j] == stamp:
                    if what == FINISHED:
                        engine.finish(at, jobs, nodes, devices, shapes, levels, used, counts, asks,
                                      aboard, log, pieces, lines, j)  # fmt: skip
                    else:
                        engine.interrupt(at, jobs, nodes, devices, shapes, levels, used, counts,
                                         asks, queues, aboard, log, pieces, lines, j, what,
                                         is_final and what == FAILED)  # fmt: skip
                        truth.crashes[j] += what == FAILED
                    seen += 1
                elif rank == START_RANK and jobs.state[j] == STARTING and jobs.attempt[j] == stamp:
                    engine.start(at, jobs, lines, j)
                    push_end(at, heap, truth, jobs, now, j)
                    seen += 1
            for i in range(coming, together):
                engine.submit(at, jobs, shapes, queues, lines, first_job + i)
                seen += 1
            at[ARRIVED] = together
            if seen == 0:
                continue
            at[PLACED_NOW] = 0
            if at[JOBS] >= at[NEXT_MIX]:
                at[IS_PAUSED] = 1
                return AT_MIX
        desk.cycle(
            at, rules, jobs, nodes, devices, shapes, levels, used, limit, floor, counts, asks,
            options, trees, queues, aboard, memory, scratch, log, tables, behind, pieces, lines,
        )  # fmt: skip
        for i in range(at[PLACED_NOW]):
            j = scratch.placed[i]
            wait = jobs.startup_ms[j]
            if jobs.attempt[j] > 1:
                wait += jobs.restart_ms[j]
            luck = startup[(31 * j + jobs.attempt[j]) % len(startup)]
            push(at, heap, at[NOW] + np.int64(wait * luck), START_RANK, j, jobs.attempt[j], 0)
        if at[IS_PAUSED] == 1:
            at[IS_PAUSED] = 0
            return AFTER_MIX
