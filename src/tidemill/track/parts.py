"""What a loop holds while it is in a part: the blocks of ``with``, and the wrapper of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from tidemill.track.meter import LoopPart

if TYPE_CHECKING:
    from tidemill.track.run import TrackedRun

Sync = Callable[[], object]
Item = TypeVar("Item")


class TimedPart:
    """The time of a block counts as one part of the loop. May be entered within itself."""

    __slots__ = ("_part", "_run", "_sync")

    def __init__(self, run: TrackedRun, part: LoopPart, sync: Sync | None = None) -> None:
        self._run, self._part, self._sync = run, int(part), sync

    def __enter__(self) -> TimedPart:
        if self._sync is not None:
            self._sync()
        try:
            self._run.enter(self._part)
        except BaseException:  # Ctrl-C came just here, and nobody will leave this block
            self._run.leave(self._part)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._sync is not None and kind is None:
                self._sync()
        finally:
            self._run.leave(self._part)


class TimedStep:
    """A step: counted where the block ends without an exception.

    What a step did may be set within the block: ``step.tokens = …``. A step within a step is part
    of it.
    """

    __slots__ = (
        "_is_ours", "_run", "_sync", "ended_ns", "flops", "number", "samples", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        run: TrackedRun,
        number: int | None,
        tokens: int | None,
        samples: int | None,
        flops: float | None,
        sync: Sync | None,
    ) -> None:
        self._run, self._sync, self._is_ours = run, sync, False
        self.number, self.tokens, self.samples, self.flops = number, tokens, samples, flops
        self.ended_ns = 0

    def __enter__(self) -> TimedStep:
        try:
            self._is_ours = self._run.begin_step()
        except BaseException:  # as for a part
            self._run.end_step(self, is_done=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_done = False
        try:
            if self._sync is not None and kind is None:
                self._sync()
            is_done = kind is None
        finally:
            self.end(is_done)

    def end(self, is_done: bool) -> None:
        """The step is over; whether it was done."""
        if self._is_ours:
            self._is_ours = False
            self._run.end_step(self, is_done)


class TimedCheckpoint:
    """A checkpoint: the loop stands still within the block, and it is saved where the block ends.

    ``begun`` for saving that goes on while the loop does: hold its ``stall`` while the state is
    copied, and call ``saved`` from any thread when it is safe.
    """

    __slots__ = ("_is_told", "_run", "_stall", "bytes", "number", "step")

    def __init__(self, run: TrackedRun, step: int | None, size: int | None) -> None:
        self._run = run
        self.step, self.bytes = step, size
        self.number = -1
        """Of this checkpoint, among those of the run."""
        self._stall = TimedPart(run, LoopPart.CHECKPOINT)
        self._is_told = False

    def begun(self, is_async: bool) -> TimedCheckpoint:
        """Tell that saving has begun."""
        self.number, self.step = self._run.checkpoint_number(self.step)
        self._run.tell(
            "checkpoint_begun", checkpoint=self.number, step=self.step, is_async=is_async
        )
        return self

    def stall(self) -> TimedPart:
        """The loop stands still for this checkpoint within the block."""
        return self._stall

    def saved(self, size: int | None = None) -> None:
        """It is safe: a job that fails from here on loses nothing before its step."""
        self._end(
            "checkpoint_saved", bytes=self._run.whole("size", self.bytes if size is None else size)
        )

    def failed(self, error: object = None) -> None:
        """It could not be saved."""
        name = type(error).__name__ if isinstance(error, BaseException) else error
        self._end("checkpoint_failed", error=self._run.text(name))

    def _end(self, kind: str, **fields: object) -> None:
        if not self._is_told:
            self._is_told = True
            self._run.tell(kind, checkpoint=self.number, step=self.step, **fields)
            self._run.send_soon()

    def __enter__(self) -> TimedCheckpoint:
        self._stall.__enter__()
        return self.begun(is_async=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        self._stall.__exit__(kind)
        if error is None:
            self.saved()
        else:
            self.failed(error)


class TimedBatches(Generic[Item]):
    """A loader whose batches are waited for in the part ``DATA``, as often as it is gone through.

    Its length and everything else are those of the loader.
    """

    def __init__(self, run: TrackedRun, loader: Iterable[Item]) -> None:
        self._run, self._loader = run, loader

    def __iter__(self) -> Iterator[Item]:
        with self._run.data():
            items = iter(self._loader)
        while True:
            with self._run.data():
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type] # ``TypeError`` where it has none, as ever

    def __getattr__(self, name: str) -> object:
        if name == "_loader":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._loader, name)
