"""One process of a job, by its records: a run of one rank.

It takes records as they come and forgets what was told, but for what is asked of its past.
"""

from typing import NamedTuple

from tidemill.live.measured import flops, stretches
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointBegunRecord,
    CheckpointFailedRecord,
    CheckpointSavedRecord,
    EfficiencyRecord,
    EndedRecord,
    LoadRecord,
    RestartedRecord,
    RestoredRecord,
    StepsRecord,
    TrackRecord,
)
from tidemill.model.measures import FOREVER_MS

SECOND_US = 1_000_000
SAVING_US = 3_600_000_000
"""So long the ranks of a job may take to save one checkpoint."""
EARLIER_AT_MOST = 180
"""So many longer pieces of stretches whose time was told are kept, for an hour: a rank is compared
with what was usual for it."""


class WentBack(NamedTuple):
    """A loop that started again within its process."""

    at_us: int
    step: int | None
    """The last step whose work it goes on from; None: nobody says."""
    again_us: int | None = None
    """When it worked again; None: not yet, or not known yet."""


class Process:
    """One process of a job: a run of one rank."""

    def __init__(self, record: TrackRecord) -> None:
        self.job, self.rank = record.job, record.rank
        self.began: BeganRecord | None = None
        self.ended: EndedRecord | None = None
        self.stretches: list[StepsRecord] = []
        self.earlier: list[StepsRecord] = []
        """What was told before, many stretches in one: for those who compare ranks."""
        self.begun: dict[int, CheckpointBegunRecord] = {}
        self.saved: list[CheckpointSavedRecord] = []
        self.over_us: dict[int, int] = {}
        """When checkpoints were saved, or failed."""
        self.restored: RestoredRecord | None = None
        """The first time: later it goes back within its own work."""
        self.backs: list[WentBack] = []
        """When it went back within its own work, or read a checkpoint before it began any."""
        self._worked_us = 1000 * FOREVER_MS
        """Since when it does steps."""
        self.first_step: int | None = None
        """The number of the first step that it told."""
        self.efficiencies: list[EfficiencyRecord] = []
        self.loads: list[LoadRecord] = []
        self.is_service = False
        self.tells_flops = False
        """Whether it ever told the FLOPs of a step: then time without a step did none."""
        self._forgotten_up_us: int | None = None
        self.unended_us = 0
        """How long it computed since its last step, before the stretches that it still has."""
        self.first_us = self.last_us = times_of(record)[0]

    def take(self, record: TrackRecord) -> None:
        """One more record of it."""
        first, last = times_of(record)
        self.first_us, self.last_us = min(self.first_us, first), max(self.last_us, last)
        match record:
            case BeganRecord():
                self.began = record
            case EndedRecord():
                self.ended = record
            case StepsRecord():
                self.stretches += stretches.at_up(record)
                self.tells_flops |= record.mflop is not None
                if record.steps and record.from_us < self._worked_us:
                    self._worked_us, self.first_step = record.from_us, record.first_step
            case CheckpointBegunRecord():
                self.begun[record.checkpoint] = record
            case CheckpointSavedRecord() | CheckpointFailedRecord():
                self._end_checkpoint(record)
            case RestoredRecord() | RestartedRecord():
                self._go_back(record)
            case EfficiencyRecord():
                self.efficiencies.append(record)
            case LoadRecord():
                self.loads.append(record)
                self.is_service = True
            case _:
                pass

    def _go_back(self, record: RestoredRecord | RestartedRecord) -> None:
        self.backs.append(WentBack(record.at_us, record.step))
        is_first = self.restored is None or record.at_us < self.restored.at_us
        if isinstance(record, RestoredRecord) and is_first:
            self.restored = record

    def _end_checkpoint(self, record: CheckpointSavedRecord | CheckpointFailedRecord) -> None:
        self.over_us[record.checkpoint] = record.at_us
        if isinstance(record, CheckpointSavedRecord):
            self.saved.append(record)

    @property
    def gpus(self) -> int:
        """How many GPUs it uses; one where it does not say."""
        told = self.began.gpus if self.began is not None else None
        return 1 if told is None else told

    @property
    def is_loop(self) -> bool:
        """Whether it tells that it began, or what it did: a remark about a job is no launch."""
        return self.began is not None or self.up_us is not None or bool(self.stretches)

    @property
    def is_saving(self) -> bool:
        """Whether it stood still for a checkpoint when it was last heard of."""
        ends = [one.last_end_us or one.until_us for one in self.stretches if one.steps]
        stepped_us = max(ends, default=self.first_us)
        return self.ended is None and any(
            one.at_us >= stepped_us and not one.is_async and n not in self.over_us
            for n, one in self.begun.items()
        )

    @property
    def up_us(self) -> int | None:
        """When its loop began: the first moment that it spent in a part of it; None: not yet."""
        if self._forgotten_up_us is not None:
            return self._forgotten_up_us
        if self.loads:  # a service tells them from when it is ready on
            return min(load.from_us for load in self.loads)
        for stretch in self.stretches:
            if stretch.up_us is not None:
                return stretch.up_us
            if stretch.until_us - stretch.from_us > stretch.other_us:
                return stretch.from_us + stretch.other_us
        return None

    def went_back(self) -> list["WentBack"]:
        """When it went back after its first step, and when it worked again, by time."""
        told = [one for one in self.backs if one.at_us > self._worked_us]
        told.sort(key=lambda one: one.at_us)
        return [one._replace(again_us=self._again_us(one)) for one in told]

    def _again_us(self, back: "WentBack") -> int | None:
        """When its loop did something after it went back; None: not yet.

        Where it does not say when: of the stretch in which it went back, what was outside of steps
        is taken to be after it.
        """
        if back.again_us is not None:
            return back.again_us
        for one in self.stretches:
            if one.up_us is not None and one.up_us >= back.at_us:
                return one.up_us
            since_us = max(one.from_us, back.at_us)
            if one.until_us - since_us > one.other_us:
                return since_us + one.other_us
        return None

    def forget(self, before_us: int) -> None:
        """Drop what nobody asks for once its time was told."""
        self.stretches.sort(key=lambda stretch: stretch.from_us)
        self.backs = [
            one for one in self.went_back() if one.again_us is None or one.again_us > before_us
        ]
        self._forgotten_up_us = self.up_us
        kept_us = before_us - SECOND_US  # the bin that was told in part is divided as a whole
        old = [one for one in self.stretches if one.until_us <= kept_us]
        self.unended_us = flops.unended_us(old, self.unended_us)
        self.earlier = stretches.joined([*self.earlier, *old])[-EARLIER_AT_MOST:]
        self.stretches = [one for one in self.stretches if one.until_us > kept_us]
        self.loads = [one for one in self.loads if one.until_us > before_us]
        saved_us = before_us - SAVING_US
        done = {one.checkpoint for one in self.saved if one.at_us < saved_us}
        self.saved = [one for one in self.saved if one.at_us >= saved_us]
        self.begun = {n: one for n, one in self.begun.items() if n not in done}
        self.over_us = {n: at_us for n, at_us in self.over_us.items() if n in self.begun}
        said = [one for one in self.efficiencies if one.at_us <= kept_us and says_efficiency(one)]
        later = [one for one in self.efficiencies if one.at_us > kept_us]
        self.efficiencies = [*sorted(said, key=lambda one: one.at_us)[-1:], *later]


def says_efficiency(one: EfficiencyRecord) -> bool:
    """Whether it says an MFU, or FLOP/s."""
    return one.mfu_ppm is not None or one.mflop_per_s is not None


def times_of(record: TrackRecord) -> tuple[int, int]:
    """From when to when a record tells something, in microseconds since 1970."""
    if isinstance(record, StepsRecord | LoadRecord):
        return record.from_us, record.until_us
    return record.at_us, record.at_us
