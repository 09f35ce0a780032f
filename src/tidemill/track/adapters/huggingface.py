"""A callback for the ``Trainer`` of Hugging Face ``transformers`` (and what is built on it).

The trainer calls back when a step begins and ends, when it has evaluated and when it has saved; in
between it does these things in this order: log, evaluate, save, fetch the next batch.
"""

from importlib import import_module
from typing import Any

from tidemill.track.adapters.gaps import LoopGaps
from tidemill.track.parts import TimedCheckpoint
from tidemill.track.run import TrackedRun


def huggingface_callback(run: TrackedRun, flops: float | None = None) -> Any:  # noqa: ANN401 - a ``TrainerCallback``
    """A callback for ``Trainer(callbacks=[…])`` that tracks a run; FLOPs of one step."""
    base = import_module("transformers").TrainerCallback
    return type("TidemillCallback", (HuggingFaceHooks, base), {})(run, flops)


class HuggingFaceHooks:
    """What is done when the trainer calls back; mixed into ``TrainerCallback``."""

    def __init__(self, run: TrackedRun, flops: float | None = None) -> None:
        super().__init__()
        self._run = run
        self._gaps = LoopGaps(run, flops)
        self._saving: TimedCheckpoint | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401, ARG002 - theirs
        """Go on from where the trainer does."""
        if state.global_step:
            self._run.restored(state.global_step)
        self._gaps.wait()

    def on_step_begin(self, *_: object, **__: object) -> None:
        """A batch has come."""
        self._gaps.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401 - theirs
        """A step is done; what comes next is evaluation, a checkpoint, or the next batch."""
        samples = args.train_batch_size * args.gradient_accumulation_steps
        self._gaps.end(state.global_step, samples)
        if control.should_evaluate:
            self._gaps.wait(None)
        elif control.should_save:
            self._begin_saving(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401, ARG002 - theirs
        """It has evaluated."""
        if control.should_save:
            self._begin_saving(state)
        else:
            self._gaps.wait()

    def on_save(self, *_: object, **__: object) -> None:
        """It has saved."""
        if self._saving is not None:
            self._saving.__exit__(None, None, None)
            self._saving = None
        self._gaps.wait()

    def on_train_end(self, *_: object, **__: object) -> None:
        """Training is over."""
        self._gaps.stop()

    def _begin_saving(self, state: Any) -> None:  # noqa: ANN401 - theirs
        if self._saving is None:
            self._gaps.wait(None)
            self._saving = self._run.checkpoint(state.global_step).__enter__()
