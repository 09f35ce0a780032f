"""What frameworks that call back do to a run: steps, and the waiting for data between them."""

from tidemill.track.meter import LoopPart
from tidemill.track.parts import TimedPart, TimedStep
from tidemill.track.run import TrackedRun


class LoopGaps:
    """A step begins and ends, and what lies between two steps is waiting for data unless told.

    The trainers of these frameworks fetch a batch between the end of a step and the beginning of
    the next, and do little else there but what they call back for: evaluation and checkpoints.
    """

    def __init__(self, run: TrackedRun, flops: float | None = None) -> None:
        self.run = run
        self._flops = flops
        self._step: TimedStep | None = None
        self._part: TimedPart | None = None

    def wait(self, part: LoopPart | None = LoopPart.DATA) -> None:
        """From now on the loop waits for this; None: it does something else."""
        if self._part is not None:
            self._part.__exit__(None, None, None)
            self._part = None
        if part is not None:
            self._part = TimedPart(self.run, part).__enter__()

    def begin(self) -> None:
        """A batch has come: a step begins, unless one is going on that takes several."""
        self.wait(None)
        if self._step is None:
            self._step = self.run.step().__enter__()

    def end(self, number: int | None = None, samples: int | None = None) -> None:
        """The step is done; the loop waits for data."""
        if self._step is not None:
            self._step.number, self._step.samples, self._step.flops = number, samples, self._flops
            self._step.__exit__(None, None, None)
            self._step = None
        self.wait()

    def stop(self) -> None:
        """Training ends, perhaps within a step, which does not count then."""
        if self._step is not None:
            self._step.end(is_done=False)
            self._step = None
        self.wait(None)
