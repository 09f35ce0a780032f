"""Expected ends and what reservations keep free, without a compiler: the same as ``kernels``."""

import numpy as np

from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.tables import I32, I64, U8, U64

LONGEST_MS = 1 << 42  # of which a share in ppm can be taken: more than a century


def expect(
    now_ms: int, rows: int, job: I64, total_ms: I64, placed_ms: I64, startup_ms: I64,
    restart_ms: I64, attempt: I32, saved_ms: I64, reached_ms: I64, speed_ppm: I64, is_leaving: U8,
    done_ms: I64, end_ms: I64, outrun: I64,
) -> int:  # fmt: skip
    """What every running job has done, when it is expected to end, and who outran that."""
    end_ms[:rows] = FOREVER_MS
    some = np.flatnonzero(job[:rows] >= 0)
    j = job[some]
    begin_ms = placed_ms[j] + startup_ms[j] + np.where(attempt[j] > 1, restart_ms[j], 0)
    speed = speed_ppm[j].astype(np.int64)
    done_ms[some] = saved_ms[j] + np.maximum(0, now_ms - begin_ms) * speed // ONE_PPM
    left_ms = total_ms[some] - done_ms[some]
    slowed_ms = np.minimum(left_ms, LONGEST_MS) * ONE_PPM // np.maximum(1, speed)
    left_ms = np.where(speed == ONE_PPM, left_ms, slowed_ms)
    end_ms[some] = np.where(is_leaving[j] != 0, now_ms, np.maximum(begin_ms, now_ms) + left_ms)
    late = some[total_ms[some] <= np.maximum(done_ms[some], reached_ms[j])]
    outrun[: len(late)] = late
    return len(late)


def sort_again(order: I64, rows: int, end_ms: I64, job: I64) -> None:
    """Sort rows by (end, job) in place."""
    order[:rows] = order[:rows][np.lexsort((job[order[:rows]], end_ms[order[:rows]]))]


def keep(
    count: int, node: I64, mask: U64, milli: I64, cpu: I64, memory: I64, first_device: I32,
    cpu_free: I64, memory_free: I64, node_free: I64, device_free: I32, kept_mask: U64,
    kept_cpu: I64, kept_memory: I64,
) -> None:  # fmt: skip
    """Take what pieces need and is free now, and write down what that was."""
    for i in range(count):
        n, wanted = int(node[i]), int(mask[i])
        first, taken = int(first_device[n]), 0
        for d in range(wanted.bit_length()):
            if wanted >> d & 1 and device_free[first + d] >= milli[i]:
                taken |= 1 << d
        kept_mask[i] = taken
        kept_cpu[i] = min(int(cpu[i]), max(0, int(cpu_free[n])))
        kept_memory[i] = min(int(memory[i]), max(0, int(memory_free[n])))
        _move(n, taken, milli[i], kept_cpu[i], kept_memory[i], first_device, cpu_free, memory_free,
              node_free, device_free, -1)  # fmt: skip


def let_go(
    count: int, node: I64, milli: I64, first_device: I32, cpu_free: I64, memory_free: I64,
    node_free: I64, device_free: I32, kept_mask: U64, kept_cpu: I64, kept_memory: I64,
) -> None:  # fmt: skip
    """Give back what was kept."""
    for i in range(count):
        _move(int(node[i]), int(kept_mask[i]), milli[i], kept_cpu[i], kept_memory[i], first_device,
              cpu_free, memory_free, node_free, device_free, 1)  # fmt: skip


def _move(
    n: int, mask: int, milli: int, cpu: int, memory: int, first_device: I32, cpu_free: I64,
    memory_free: I64, node_free: I64, device_free: I32, sign: int,
) -> None:  # fmt: skip
    for d in range(mask.bit_length()):
        if mask >> d & 1:
            device_free[int(first_device[n]) + d] += sign * milli
            node_free[n] += sign * milli
    cpu_free[n] += sign * cpu
    memory_free[n] += sign * memory
