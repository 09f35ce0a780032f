"""A callback for PyTorch Lightning (``lightning`` 2, or ``pytorch_lightning``).

A step is one call of ``training_step`` and what follows it in the batch; where gradients are
accumulated, it ends with the batch in which the optimizer stepped. Checkpoints are timed around
``Trainer.save_checkpoint``, which is what ``ModelCheckpoint`` calls.
"""

from importlib import import_module
from typing import Any

from tidemill.track.adapters.gaps import LoopGaps
from tidemill.track.run import TrackedRun


def lightning_callback(run: TrackedRun, flops: float | None = None) -> Any:  # noqa: ANN401 - a ``Callback``
    """A callback for ``Trainer(callbacks=[…])`` that tracks a run; FLOPs of one step."""
    return type("TidemillCallback", (LightningHooks, _framework().Callback), {})(run, flops)


def _framework() -> Any:  # noqa: ANN401 - a module
    try:
        return import_module("lightning.pytorch")
    except ModuleNotFoundError:
        return import_module("pytorch_lightning")


class LightningHooks:
    """What is done when Lightning calls back; mixed into its ``Callback``."""

    def __init__(self, run: TrackedRun, flops: float | None = None) -> None:
        super().__init__()
        self._run = run
        self._gaps = LoopGaps(run, flops)
        self._saves: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ANN401, ARG002 - theirs
        """Go on from where the trainer does, and time its checkpoints."""
        if trainer.global_step:
            self._run.restored(trainer.global_step)
        self._saves = trainer.save_checkpoint

        def save_checkpoint(*args: object, **named: object) -> None:
            with self._run.checkpoint(trainer.global_step):
                self._saves(*args, **named)

        trainer.save_checkpoint = save_checkpoint
        self._gaps.wait()

    def on_train_batch_start(self, *_: object) -> None:
        """A batch has come."""
        self._gaps.begin()

    def on_train_batch_end(self, trainer: Any, *_: object) -> None:  # noqa: ANN401 - theirs
        """A batch is done, and the step with it where the optimizer stepped."""
        if trainer.global_step > self._run.last_step:
            self._gaps.end(trainer.global_step)
        else:
            self._gaps.wait()

    def on_validation_start(self, *_: object) -> None:
        """What follows is no waiting for data."""
        self._gaps.wait(None)

    def on_validation_end(self, *_: object) -> None:
        """Back to training."""
        self._gaps.wait()

    def on_train_end(self, trainer: Any, *_: object) -> None:  # noqa: ANN401 - theirs
        """Training is over."""
        self._gaps.stop()
        if self._saves is not None:
            trainer.save_checkpoint, self._saves = self._saves, None

    def on_exception(self, trainer: Any, *_: object) -> None:  # noqa: ANN401 - theirs
        """Training ended with an exception, which Lightning raises."""
        self.on_train_end(trainer)
