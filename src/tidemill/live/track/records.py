"""Records of ``tidemill.track`` as typed rows; the fields are explained in their docstrings.

Fields that this version does not know are passed over. What is absent is None: unknown.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tidemill.model import decoding
from tidemill.track.format import LONGEST_LINE, LONGEST_TEXT, MOST, VERSION

LATEST_US = 4_102_444_800_000_000  # the year 2100: beyond it a time is in another unit
EARLIEST_US = 946_684_800_000_000  # the year 2000: before it a clock was never set
LONGEST_ERROR = 300

Count = Annotated[int, Meta(ge=0, le=MOST)]
Micros = Annotated[int, Meta(ge=0, le=LATEST_US)]
AtUs = Annotated[int, Meta(ge=EARLIEST_US, le=LATEST_US)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
RunId = Annotated[str, Meta(min_length=1, max_length=64)]


class _TrackRecord(Struct, frozen=True, tag_field="is", kw_only=True):
    v: Literal[1]
    """The version of the format."""
    job: Name
    """The job, by the name that it keeps when it is started again."""
    run: RunId
    """The process: drawn at random when it began."""
    rank: Count
    """Which of the job's processes; 0 where nobody said."""
    seq: Count
    """The number of the record in its run, from 0. A number that is missing is a record lost."""


class _AtRecord(_TrackRecord, frozen=True, kw_only=True):
    at_us: AtUs
    """When, in microseconds since the epoch."""


class BeganRecord(_AtRecord, frozen=True, kw_only=True, tag="job_began"):
    """A process of a job began."""

    named_by: Text | None = None
    """What named the job: ``given``, a variable of the environment, or ``host`` for want of one."""
    world: Count | None = None
    """How many processes the job has."""
    local_rank: Count | None = None
    """Which of the job's processes on this machine."""
    restarts: Count | None = None
    """How often the launcher or scheduler has started the job again."""
    gpus: Count | None = None
    """How many GPUs this process uses."""
    role: Text | None = None
    """What it does where ranks differ, such as a pipeline stage: equal roles do equal work."""
    team: Text | None = None
    """Whose job it is."""
    user: Text | None = None
    """Who started it."""
    host: Text | None = None
    """The machine."""
    pid: Count | None = None
    """The process on the machine."""
    library: Text | None = None
    """The version of Tidemill that wrote the record."""
    ids: dict[Text, Text] = {}
    """What else names it: the numbers of Slurm, the names of Kubernetes, the visible GPUs."""


class StepsRecord(_TrackRecord, frozen=True, kw_only=True, tag="steps"):
    """What a process did in a stretch of time, mostly a second; stretches leave no gap.

    The parts that are there add up to ``until_us - from_us`` exactly. A part is absent where the
    loop does not tell it apart; its time is then in ``compute_us`` or ``other_us``.
    """

    from_us: AtUs
    """Where the stretch begins, in microseconds since the epoch."""
    until_us: AtUs
    """Where it ends."""
    skew_us: Annotated[int, Meta(ge=-MOST, le=MOST)]
    """The wall clock less the clock of these times, which the wall clock set when the run began."""
    steps: Count
    """How many steps ended in it."""
    data_us: Micros | None = None
    """Waiting for data."""
    communication_us: Micros | None = None
    """Waiting for other ranks, as the host sees it."""
    checkpoint_us: Micros | None = None
    """Standing still for a checkpoint."""
    compute_us: Micros | None = None
    """The rest of the time within steps."""
    other_us: Micros
    """The time outside steps and all other parts: start-up, evaluation, logging."""
    up_us: AtUs | None = None
    """When the loop began to work in it, or worked again after it went back."""
    first_step: Count | None = None
    """The number of the first step that ended."""
    last_step: Count | None = None
    """The number of the last one."""
    last_end_us: AtUs | None = None
    """When the last one ended."""
    min_step_us: Micros | None = None
    """The shortest time from the end of one step to the end of the next."""
    median_step_us: Micros | None = None
    """The median of those times; the lower one of two."""
    max_step_us: Micros | None = None
    """The longest of those times."""
    tokens: Count | None = None
    """Tokens in these steps, of this rank; absent where a step did not say."""
    samples: Count | None = None
    """Samples in these steps, of this rank; absent where a step did not say."""
    mflop: Count | None = None
    """Millions of floating-point operations in these steps, of this rank."""


Bucket = tuple[Count | None, Count]
"""The upper bound of a bucket in microseconds (null: it has none), and how many are in it."""


class LoadRecord(_TrackRecord, frozen=True, kw_only=True, tag="load"):
    """What a service was asked for in a stretch of time, mostly a second; they leave no gap.

    Made from when it was ready on.
    """

    from_us: AtUs
    """Where the stretch begins, in microseconds since the epoch."""
    until_us: AtUs
    """Where it ends."""
    requests: Count
    """How many requests ended in it."""
    tokens_in: Count | None = None
    """Tokens of their prompts; absent where a request did not say."""
    tokens_out: Count | None = None
    """Tokens that they were given; absent where a request did not say."""
    waiting_us: Count
    """Requests that waited to be run, times how long."""
    running_us: Count
    """Requests that were run, times how long."""
    first_token: tuple[Bucket, ...] = ()
    """How long first tokens took, by bucket."""
    between_tokens: tuple[Bucket, ...] = ()
    """How long each further token took, by bucket."""
    whole: tuple[Bucket, ...] = ()
    """How long whole requests took, by bucket."""


class CheckpointBegunRecord(_AtRecord, frozen=True, kw_only=True, tag="checkpoint_begun"):
    """Saving began."""

    checkpoint: Count
    """The number of the checkpoint in its run."""
    step: Count
    """The last step whose work is in it."""
    is_async: bool
    """Whether the loop goes on meanwhile."""


class CheckpointSavedRecord(_AtRecord, frozen=True, kw_only=True, tag="checkpoint_saved"):
    """A checkpoint is safe: nothing up to its step can be lost any more."""

    checkpoint: Count
    """The number of the checkpoint in its run."""
    step: Count
    """The last step whose work is in it."""
    bytes: Count | None = None
    """Its size, as this rank wrote it."""


class CheckpointFailedRecord(_AtRecord, frozen=True, kw_only=True, tag="checkpoint_failed"):
    """A checkpoint could not be saved."""

    checkpoint: Count
    """The number of the checkpoint in its run."""
    step: Count
    """The last step whose work would be in it."""
    error: Text | None = None
    """The name of the exception."""


class RestoredRecord(_AtRecord, frozen=True, kw_only=True, tag="restored"):
    """A checkpoint was read, and the loop goes on after it."""

    step: Count | None = None
    """The last step whose work is in it."""


class RestartedRecord(_AtRecord, frozen=True, kw_only=True, tag="restarted"):
    """The loop started again within its process."""

    step: Count | None = None
    """The last step whose work it goes on from."""
    why: Text | None = None
    """Why, in the words of the loop."""


class EfficiencyRecord(_AtRecord, frozen=True, kw_only=True, tag="efficiency"):
    """How well the device is used from now on, as the loop or its profiler says."""

    mfu_ppm: Count | None = None
    """Model FLOPs over the peak, in millionths; more than a GPU can do is not believed."""
    mflop_per_s: Count | None = None
    """Millions of floating-point operations per second, of this rank."""
    peak_mflop_per_s: Count | None = None
    """The peak that ``mfu_ppm`` counts from."""
    source: Text | None = None
    """Who says so, and how they know."""


class LostRecord(_AtRecord, frozen=True, kw_only=True, tag="lost"):
    """Records that were made and will never be read."""

    records: Count
    """How many."""
    why: Text
    """What became of them."""
    first: Count | None = None
    """The lowest number among them."""
    last: Count | None = None
    """The highest number among them."""


class EndedRecord(_AtRecord, frozen=True, kw_only=True, tag="job_ended"):
    """A process of a job ended by itself. One that was killed has no such record."""

    outcome: Literal["finished", "failed", "interrupted"] | None = None
    """Absent where the interpreter ended and nobody knows why."""
    error: Text | None = None
    """The name of the exception that ended it."""


TrackRecord = (
    BeganRecord
    | StepsRecord
    | LoadRecord
    | CheckpointBegunRecord
    | CheckpointSavedRecord
    | CheckpointFailedRecord
    | RestoredRecord
    | RestartedRecord
    | EfficiencyRecord
    | LostRecord
    | EndedRecord
)
KINDS = (
    BeganRecord, StepsRecord, LoadRecord, CheckpointBegunRecord, CheckpointSavedRecord,
    CheckpointFailedRecord, RestoredRecord, RestartedRecord, EfficiencyRecord, LostRecord,
    EndedRecord,
)  # fmt: skip
"""Every type of record, in the order in which the reference lists them."""

_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(TrackRecord)


class _Versioned(Struct):
    v: Any = None


_TIMES = tuple(f"`{name}`: expected a whole number" for name in ("at_us", "from_us", "until_us"))
_VERSION_DECODER = msgspec.json.Decoder(_Versioned)


class UnusableRecord(ValueError):  # noqa: N818 - it reads as what it is
    """A line is no record; the message says why."""


def parse(line: bytes) -> TrackRecord:
    """The record of one line; ``UnusableRecord`` says why it is none."""
    if len(line) > LONGEST_LINE:
        raise UnusableRecord(f"{len(line):,} bytes; a record has at most {LONGEST_LINE:,}")
    try:
        record = _DECODER.decode(line)
    except decoding.FAULTS as error:
        said = _version(line) or decoding.in_words(error, line, TrackRecord)
        if said.startswith(_TIMES):
            said += " (microseconds since 1970, from the year 2000 to 2100)"
        raise UnusableRecord(said[:LONGEST_ERROR]) from error
    if isinstance(record, StepsRecord):
        _check_steps(record)
    if isinstance(record, LoadRecord) and record.from_us > record.until_us:
        raise UnusableRecord("the stretch ends before it begins")
    return record


def moved(record: TrackRecord, ahead_us: int) -> TrackRecord:
    """The record of a machine whose clock is so far ahead, by a clock that is right."""
    if not ahead_us:
        return record
    if isinstance(record, StepsRecord | LoadRecord):
        record = replace(
            record, from_us=record.from_us - ahead_us, until_us=record.until_us - ahead_us
        )
        if isinstance(record, StepsRecord):
            told = {name: getattr(record, name) for name in ("last_end_us", "up_us")}
            later = {name: us - ahead_us for name, us in told.items() if us is not None}
            record = replace(record, **later)
        return record
    return replace(record, at_us=record.at_us - ahead_us)


def _version(line: bytes) -> str:
    """What is wrong with a line of another version; empty where it is of this one, or of none."""
    try:
        told = _VERSION_DECODER.decode(line).v
    except decoding.FAULTS:
        return ""
    return "" if told == VERSION else f"version {told!r:.20}; this reader knows version {VERSION}"


def _check_steps(record: StepsRecord) -> None:
    """What the types cannot say of a stretch of steps."""
    parts = (record.data_us, record.communication_us, record.checkpoint_us, record.compute_us)
    told_us = record.other_us + sum(part or 0 for part in parts)
    if record.until_us - record.from_us != told_us:
        raise UnusableRecord(
            f"the parts add up to {told_us} µs, the stretch has "
            f"{record.until_us - record.from_us} µs"
        )
    before_us = 0 if record.up_us is None else record.up_us - record.from_us
    if not 0 <= before_us <= record.other_us:
        raise UnusableRecord(
            f"`up_us` is {before_us} µs after `from_us`; until then all is `other_us`, which is"
            f" {record.other_us} µs"
        )
    times = (record.min_step_us, record.median_step_us, record.max_step_us)
    of_steps = (record.first_step, record.last_step, *times)
    if any((value is None) == bool(record.steps) for value in of_steps):
        must = "must be told" if record.steps else "cannot be told"
        raise UnusableRecord(
            f"{record.steps} steps ended: first_step, last_step, min_step_us, median_step_us and "
            f"max_step_us {must}"
        )
    low, middle, high = (value or 0 for value in times)
    if not low <= middle <= high:
        raise UnusableRecord(f"step times {low}, {middle}, {high} µs are not in order")
