"""Which job a text means: `123`, `123_4` (array), `123_[5-9%2]`, `123+1` (het)."""

import re
from typing import NamedTuple


class JobIdentity(NamedTuple):
    """The parts of a job id. ``job_id`` is None for members of arrays and het jobs: there the
    printed number is that of the array or of the leader, and the own number is `JobIDRaw`.
    """

    job_id: int | None
    array_job_id: int | None = None
    array_task_id: int | None = None
    array_tasks: str | None = None
    het_job_id: int | None = None
    het_offset: int | None = None


PATTERN = r"^([0-9]+)(?:_(?:([0-9]+)|\[([0-9,:%-]*(?:\.\.\.)?[0-9,:%-]*)\]))?(?:\+([0-9]+))?$"
"""Number, task, tasks that pend together, offset in a het job."""

_ID = re.compile(PATTERN)
MOST_DIGITS = 18  # fits 64 bits


def parse(text: str) -> JobIdentity:
    """The parts of a printed job id; ``ValueError`` if it is none."""
    found = _ID.fullmatch(text)
    if not found or max(map(len, re.findall(r"\d+", text))) > MOST_DIGITS:
        raise ValueError("not a job id such as 123, 123_4, 123_[5-9] or 123+0")
    number, task, tasks, offset = found.groups()
    in_array, in_het = task is not None or tasks is not None, offset is not None
    return JobIdentity(
        None if in_array or in_het else int(number),
        int(number) if in_array else None,
        int(task) if task is not None else None,
        tasks,
        int(number) if in_het else None,
        int(offset) if in_het else None,
    )


def raw(text: str) -> int:
    """The own number of a job, as sacct's `JobIDRaw` prints it: `127` or `127.batch`."""
    number = text.partition(".")[0]
    if not (number.isascii() and number.isdigit()) or len(number) > MOST_DIGITS:
        raise ValueError("not the number of a job")
    return int(number)


def tasks_of_mask(mask: str) -> str:
    """Array tasks from the bit mask that 22.05's JSON prints: `0x7E` is `1-6`."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return mask  # later versions print the ranges
    if bits.bit_length() > 1 << 22:
        raise ValueError("not the tasks of an array: Slurm allows 4 million at most")
    numbers = [i for i, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in _runs(numbers))


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
