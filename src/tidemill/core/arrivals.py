"""What came of late: how many jobs of each shape, how many have left, and who could host more."""

from enum import IntEnum

from tidemill.core.fold import DONE, WAITING
from tidemill.core.kernel import kernel
from tidemill.core.places import READY
from tidemill.model.columns import DEVICE, JOB, NODE, SHAPE
from tidemill.model.measures import ONE_PPM, WHOLE_MILLI


class HOSTED(IntEnum):
    """One row per replica that nodes are looked for; a flag for each GPU type after these."""

    ACCELERATORS = 0
    CPU = 1
    MEMORY = 2
    FOUND = 3
    KINDS = 4


@kernel
def note(jobs, shapes, known, first, end):
    """Note how many of these jobs are of each shape; the turnover of them, in millionths.

    That is, of those that were placed, and did not go back into the queue, how many have left.
    """
    left, active = 0, 0
    for s in range(known):
        shapes[s, SHAPE.NOTED] = 0
    for j in range(first, end):
        shapes[jobs[j, JOB.SHAPE], SHAPE.NOTED] += 1
        if jobs[j, JOB.ATTEMPT] > 0:
            left += int(jobs[j, JOB.STATE] >= DONE)
            active += int(jobs[j, JOB.STATE] != WAITING)
    return ONE_PPM * left // max(1, active)


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
