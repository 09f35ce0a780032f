"""The compiled fold: what happens in the plain life of a job, written into columns in place.

The same as ``fold_jobs`` for jobs of one role that are submitted, placed, started, finished, failed
or taken back; that is the oracle, and tests hold the two to the same events and the same World.
``at`` holds the few numbers that change: see the names below.
"""

import numpy as np

from tidemill.compiled import across

compiled = across(__file__)
inlined = across(__file__, inline="always")

# Where the numbers that change are in ``at``.
NOW, JOBS, EVENTS, PIECES, LOGGED, QUEUED, PLACED_NOW = range(7)
SEEN_JOBS, SEEN_FREED, SEEN_QUEUES, DECIDED, IS_SEEN = range(7, 12)
HEAP, SERIAL, ARRIVED, WAITING_ALL = range(12, 16)
LOOK, LOOKED, IS_LOOK_WHOLE, IS_LOST = range(16, 20)
IS_SCORED, WASTED, NEXT_MIX, IS_PAUSED = range(20, 24)
ENDS, CLAIMS, RESERVED, RESERVED_PIECES, HAS_REFUSED = range(24, 29)
MADE, MADE_CLAIMS, MADE_FREED, MADE_TAKEN, MADE_UNTIL, FIRSTS = range(29, 35)
NUMBERS = 35

# Kinds of event, as in ``story``.
SUBMITTED, PLACED, STARTED, FINISHED, SAID_WHY, FAILED, CANCELLED, SAID_MIX, PASSED = range(9)

# States and levels, as in the model; kernels import nothing of it.
WAITING, STARTING, RUNNING, DONE, GAVE_UP, TAKEN_BACK = range(6)
LEVEL_ALLOCATED, LEVEL_READY = 0, 1
BUSY_PPM = 1_000_000
NEVER_PASSED = -1


@inlined
def tell(at, lines, kind, subject, number, first, pieces):
    """Write one event."""
    i = at[EVENTS]
    lines.kind[i] = kind
    lines.at_ms[i] = at[NOW]
    lines.subject[i] = subject
    lines.number[i] = number
    lines.first[i] = first
    lines.pieces[i] = pieces
    at[EVENTS] = i + 1


@inlined
def submit(at, jobs, shapes, queues, lines, j):
    """A job whose row is written waits from now on."""
    jobs.state[j] = WAITING
    jobs.submit_ms[j] = at[NOW]
    jobs.since_ms[j] = at[NOW]
    enqueue(at, shapes, queues, jobs.shape[j], j)
    at[JOBS] = j + 1
    tell(at, lines, SUBMITTED, j, 0, 0, 0)


@compiled
def enqueue(at, shapes, queues, s, j):
    """A job waits again, or for the first time."""
    if shapes.waiting[s] == 0:
        queues.place[s] = at[QUEUED]
        queues.queued[at[QUEUED]] = s
        at[QUEUED] += 1
    link(shapes.waiting, shapes.head, queues.after, queues.last, s, j)
    at[WAITING_ALL] += 1


@compiled
def link(waiting, head, after, last, s, j):
    """Put a job into the chain of its shape, which is in the order of numbers."""
    if waiting[s] == 0:
        after[j] = -1
        head[s] = j
        last[s] = j
    elif j > last[s]:
        after[j] = -1
        after[last[s]] = j
        last[s] = j
    elif j < head[s]:
        after[j] = head[s]
        head[s] = j
    else:
        earlier = head[s]
        while after[earlier] < j:
            earlier = after[earlier]
        after[j] = after[earlier]
        after[earlier] = j
    waiting[s] += 1


@compiled
def unlink(waiting, head, after, last, s, j):
    """Take a job out of the chain of its shape; of the last one the head stays."""
    waiting[s] -= 1
    if waiting[s] == 0:
        return
    if head[s] == j:
        head[s] = after[j]
        return
    earlier = head[s]
    while after[earlier] != j:
        earlier = after[earlier]
    after[earlier] = after[j]
    if last[s] == j:
        last[s] = earlier


@inlined
def start(at, jobs, lines, j):
    """A gang that was placed has come up."""
    jobs.state[j] = RUNNING
    jobs.since_ms[j] = at[NOW]
    jobs.origin_ms[j] = at[NOW]
    tell(at, lines, STARTED, j, jobs.attempt[j], 0, 0)


@inlined
def finish(at, jobs, nodes, devices, shapes, levels, used, counts, asks, aboard, log, pieces, lines,
           j):  # fmt: skip
    """A running job is done and gives everything back."""
    vacate(at, nodes, devices, shapes, levels, used, counts, asks, aboard, log, pieces,
           jobs.shape[j], j)  # fmt: skip
    jobs.state[j] = DONE
    jobs.since_ms[j] = at[NOW]
    jobs.ran_ms[j] += at[NOW] - jobs.origin_ms[j]
    tell(at, lines, FINISHED, j, jobs.attempt[j], 0, 0)


@inlined
def interrupt(at, jobs, nodes, devices, shapes, levels, used, counts, asks, queues, aboard, log,
              pieces, lines, j, kind, is_final):  # fmt: skip
    """A running attempt failed or was taken back: keep what was saved; wait again, or end."""
    s = jobs.shape[j]
    elapsed, interval = at[NOW] - jobs.origin_ms[j], jobs.interval_ms[j]
    jobs.ran_ms[j] += elapsed
    jobs.reached_ms[j] = max(jobs.reached_ms[j], jobs.saved_ms[j] + elapsed)
    if interval < 0:
        jobs.saved_ms[j] += elapsed
    elif interval > 0:
        jobs.saved_ms[j] += elapsed // (interval + jobs.cost_ms[j]) * interval
    vacate(at, nodes, devices, shapes, levels, used, counts, asks, aboard, log, pieces, s, j)
    jobs.since_ms[j] = at[NOW]
    if kind == FAILED and not is_final:
        jobs.state[j] = WAITING
        enqueue(at, shapes, queues, s, j)
    else:
        if shapes.waiting[s] == 0:
            shapes.head[s] = j
        jobs.state[j] = GAVE_UP if kind == FAILED else TAKEN_BACK
        counts.queue_freed[shapes.queue[s]] += kind == CANCELLED
    tell(at, lines, kind, j, jobs.attempt[j], 0, is_final)


@compiled
def vacate(at, nodes, devices, shapes, levels, used, counts, asks, aboard, log, pieces, s, j):
    """Give back everything that a job holds."""
    q = shapes.queue[s]
    first = aboard.first[j]
    milli = asks.accelerators[s] * asks.milli[s]
    for i in range(first, first + aboard.pieces[j]):
        n = pieces.node[i]
        replicas = pieces.replicas[i]
        move(nodes, devices, n, pieces.devices[i], asks.milli[s], replicas * milli,
             replicas * asks.cpu[s], replicas * asks.memory[s], 1)  # fmt: skip
        k = nodes.kind[n]
        c = nodes.contract[n]
        levels[c, LEVEL_READY] += replicas * milli
        levels[c, LEVEL_ALLOCATED] -= replicas * milli
        counts.free[k] += replicas * milli
        counts.freed[k] += 1
        used[q, k] -= replicas * milli
        if is_first_on_node(pieces, first, i):
            aboard.jobs[n] -= 1
        if aboard.jobs[n] == 0:
            nodes.emptied_ms[n] = at[NOW]
        note(at, log, n)
    counts.queue_freed[q] += 1
    aboard.pieces[j] = 0


@inlined
def is_first_on_node(pieces, first, i):
    """Whether no earlier piece of the same job sits on the same node."""
    for e in range(first, i):
        if pieces.node[e] == pieces.node[i]:
            return False
    return True


@inlined
def move(nodes, devices, n, mask, device_milli, milli, cpu, memory, sign):
    """Give devices, CPU and memory back to a node (sign 1), or take them (-1)."""
    d = nodes.first_device[n]
    while mask != 0:
        if mask & np.uint64(1):
            devices.free_milli[d] += sign * device_milli
        mask >>= np.uint64(1)
        d += 1
    nodes.free_milli[n] += sign * milli
    nodes.cpu_free_milli[n] += sign * cpu
    nodes.memory_free_mib[n] += sign * memory


@inlined
def note(at, log, n):
    """Remember that a node changed, for the trees; when there is no room, they begin again."""
    if at[LOGGED] < len(log):
        log[at[LOGGED]] = n
    at[LOGGED] += 1


@inlined
def place(at, jobs, nodes, shapes, levels, used, counts, asks, queues, aboard, scratch, pieces,
          lines, s, j, found):  # fmt: skip
    """Write a placement whose devices are taken: books, queue, job, event."""
    q = shapes.queue[s]
    milli = asks.accelerators[s] * asks.milli[s]
    first = at[PIECES]
    for i in range(found):
        n = scratch.node[i]
        pieces.node[first + i] = n
        pieces.replicas[first + i] = scratch.replicas[i]
        pieces.devices[first + i] = scratch.devices[i]
        k = nodes.kind[n]
        c = nodes.contract[n]
        held = scratch.replicas[i] * milli
        levels[c, LEVEL_READY] -= held
        levels[c, LEVEL_ALLOCATED] += held
        counts.free[k] -= held
        counts.taken[k] += 1
        used[q, k] += held
        if is_first_on_node(pieces, first, first + i):
            aboard.jobs[n] += 1
    at[PIECES] = first + found
    aboard.first[j] = first
    aboard.pieces[j] = found
    unlink(shapes.waiting, shapes.head, queues.after, queues.last, s, j)
    at[WAITING_ALL] -= 1
    if shapes.waiting[s] == 0:
        at[QUEUED] -= 1
        other = queues.queued[at[QUEUED]]
        queues.queued[queues.place[s]] = other
        queues.place[other] = queues.place[s]
    jobs.state[j] = STARTING
    jobs.attempt[j] += 1
    jobs.since_ms[j] = at[NOW]
    jobs.placed_ms[j] = at[NOW]
    jobs.passed_ms[j] = NEVER_PASSED
    jobs.busy_ppm[j] = BUSY_PPM
    scratch.placed[at[PLACED_NOW]] = j
    at[PLACED_NOW] += 1
    tell(at, lines, PLACED, j, jobs.attempt[j], first, found)
