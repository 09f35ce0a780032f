"""What came of late: how many jobs of each shape, how many have left, and who could host more."""

from enum import IntEnum

from tidemill.core.fold import DONE
from tidemill.core.kernel import kernel
from tidemill.core.places import READY
from tidemill.model.columns import AT, DEVICE, JOB, NODE, SHAPE
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI

REMEMBERED = 20_000  # arrivals; a fleet of 1,000 nodes fills up with half as many
DRIFT = 20  # parts: a mix that moved by less than one of them stays


class HOSTED(IntEnum):
    """One row per replica that nodes are looked for; a flag for each GPU type after these."""

    ACCELERATORS = 0
    CPU = 1
    MEMORY = 2
    FOUND = 3
    KINDS = 4


@kernel
def has_left(jobs, j):
    """Whether a job was placed, and has ended."""
    return jobs[j, JOB.ATTEMPT] > 0 and jobs[j, JOB.STATE] >= DONE


@kernel
def note(w, before, first, end):
    """Note how many of these jobs are of each shape; the turnover of them, in millionths.

    That is, of those that were placed, and did not go back into the queue, how many have left. Who
    came since the last look (``before`` jobs had then) is added, and who came too long ago is
    taken off: it costs what changed.
    """
    at, jobs, shapes = w.at, w.jobs, w.shapes
    for j in range(at[AT.RECENT], first):
        at[AT.LEFT] -= int(has_left(jobs, j))
        shapes[jobs[j, JOB.SHAPE], SHAPE.NOTED] -= int(j < before)
    for j in range(max(before, first), end):
        shapes[jobs[j, JOB.SHAPE], SHAPE.NOTED] += 1
    at[AT.RECENT] = first
    placed = at[AT.LEFT]
    for i in range(at[AT.ACTIVE]):
        placed += int(w.active[i] >= first)
    return ONE_PPM * at[AT.LEFT] // max(1, placed)


@kernel
def has_drifted(shapes, known):
    """Whether more than one part in so many came from elsewhere than the mix says."""
    now, then, moved = 0, 0, 0
    for s in range(known):
        now += shapes[s, SHAPE.NOTED]
        then += shapes[s, SHAPE.MIXED]
    if now < min(3 * then, REMEMBERED):
        return False
    for s in range(known):
        change = shapes[s, SHAPE.NOTED] * then - shapes[s, SHAPE.MIXED] * now
        moved += max(change, -change)
    return then == 0 or moved // 2 * DRIFT > now * then


@kernel
def take_over(shapes, known):
    """The mix is what was noted, if it has drifted."""
    if has_drifted(shapes, known):
        for s in range(known):
            shapes[s, SHAPE.MIXED] = shapes[s, SHAPE.NOTED]


@kernel
def wanted(shapes, s):
    """How much of what came of late is of a shape, in milli."""
    return shapes[s, SHAPE.TOTAL_MILLI] * shapes[s, SHAPE.NOTED]


@kernel
def find_large(shapes, known, large):
    """The shapes that want several accelerators on one node, most wanted first; how many."""
    count = 0
    for s in range(known):
        shapes[s, SHAPE.HOSTS] = 0
        if shapes[s, SHAPE.WIDEST] < 2 or wanted(shapes, s) == 0:
            continue
        i = count
        while i > 0 and wanted(shapes, large[i - 1]) < wanted(shapes, s):
            if i < len(large):
                large[i] = large[i - 1]
            i -= 1
        if i < len(large):
            large[i] = s
            count = min(count + 1, len(large))
    return count


@kernel
def whole_devices(nodes, devices, n):
    """How many devices of a node are whole, and free."""
    first, found = nodes[n, NODE.FIRST_DEVICE], 0
    for d in range(first, first + nodes[n, NODE.DEVICES]):
        is_whole = devices[d, DEVICE.FREE_MILLI] == WHOLE_MILLI
        found += int(is_whole and devices[d, DEVICE.IS_FAILED] == 0)
    return found


@kernel
def count_hosts(nodes, devices, counts, node_count):
    """Count the nodes that take work and could take each replica (``HOSTED``) now."""
    for n in range(node_count):
        if nodes[n, NODE.STATE] != READY or nodes[n, NODE.IS_SPARE] != 0:
            continue
        whole, kind = whole_devices(nodes, devices, n), HOSTED.KINDS + nodes[n, NODE.KIND]
        for r in range(len(counts)):
            counts[r, HOSTED.FOUND] += int(
                counts[r, kind] != 0
                and whole >= counts[r, HOSTED.ACCELERATORS]
                and nodes[n, NODE.CPU_FREE_MILLI] >= counts[r, HOSTED.CPU]
                and nodes[n, NODE.MEMORY_FREE_MIB] >= counts[r, HOSTED.MEMORY]
            )
