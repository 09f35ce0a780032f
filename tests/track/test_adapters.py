"""The callbacks for frameworks: what their trainers call, in the order in which they do.

The orders are those of transformers 5.22 and lightning 2.6, with which the callbacks were run.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.track.played import kinds, steps, stretches, whole
from tidemill import track
from tidemill.live.track.records import CheckpointSavedRecord, RestoredRecord
from tidemill.track import adapters
from tidemill.track.adapters.huggingface import HuggingFaceHooks
from tidemill.track.adapters.lightning import LightningHooks

ARGS = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=2)


def _control(evaluates: bool = False, saves: bool = False) -> SimpleNamespace:
    return SimpleNamespace(should_evaluate=evaluates, should_save=saves)


def test_hugging_face(tmp_path: Path):
    """Three steps, the second with an evaluation and a checkpoint after it."""
    state = SimpleNamespace(global_step=10)
    with track.job("hf", to=f"file:{tmp_path}") as run:
        hooks = HuggingFaceHooks(run, flops=2e9)
        hooks.on_train_begin(ARGS, state, _control())
        for step, then in ((11, _control()), (12, _control(True, True)), (13, _control())):
            hooks.on_step_begin(ARGS, state, then)
            state.global_step = step
            hooks.on_step_end(ARGS, state, then)
            if then.should_evaluate:
                hooks.on_evaluate(ARGS, state, then)
            if then.should_save:
                hooks.on_save(ARGS, state, then)
        hooks.on_train_end(ARGS, state, _control())
    records = whole(tmp_path).records
    assert [one.step for one in records if isinstance(one, RestoredRecord)] == [10]
    assert [one.step for one in records if isinstance(one, CheckpointSavedRecord)] == [12]
    told = [one for one in stretches(records) if one.steps]
    assert (steps(records), told[-1].last_step) == (3, 13)
    assert sum(one.samples or 0 for one in told) == 48
    assert sum(one.mflop or 0 for one in told) == 3 * 2_000
    assert told[-1].data_us is not None
    assert told[-1].checkpoint_us is not None


class Trainer:
    """As much of Lightning's trainer as a callback sees."""

    def __init__(self, step: int) -> None:
        self.global_step = step
        self.saved: list[str] = []

    def save_checkpoint(self, path: str, fails: bool = False) -> None:
        """As a user or ModelCheckpoint calls it."""
        if fails:
            raise OSError("full")
        self.saved.append(path)


def test_lightning(tmp_path: Path):
    """Two batches a step; the trainer's own method is timed, and given back at the end."""
    trainer = Trainer(5)
    with track.job("pl", to=f"file:{tmp_path}") as run:
        hooks = LightningHooks(run)
        hooks.on_train_start(trainer, None)
        for batch in range(4):
            hooks.on_train_batch_start(trainer, None, None, batch)
            trainer.global_step += batch % 2
            hooks.on_train_batch_end(trainer, None, None, None, batch)
        trainer.save_checkpoint("a.ckpt")
        hooks.on_validation_start(trainer, None)
        hooks.on_validation_end(trainer, None)
        with pytest.raises(OSError, match="full"):
            trainer.save_checkpoint("b.ckpt", fails=True)
        hooks.on_train_end(trainer, None)
    assert trainer.saved == ["a.ckpt"]
    assert "save_checkpoint" not in vars(trainer) or trainer.save_checkpoint == _bound(trainer)
    records = whole(tmp_path).records
    assert [one.step for one in records if isinstance(one, RestoredRecord)] == [5]
    assert [one.step for one in records if isinstance(one, CheckpointSavedRecord)] == [7]
    assert "checkpoint_failed" in kinds(records)
    assert (steps(records), [one.last_step for one in stretches(records) if one.steps][-1]) == (
        2,
        7,
    )


def _bound(trainer: Trainer) -> object:
    return Trainer.save_checkpoint.__get__(trainer)


def test_an_exception_ends_the_step_that_it_broke(tmp_path: Path):
    """Lightning tells of it; the step does not count, and nothing is left open."""
    trainer = Trainer(0)
    with track.job("pl", to=f"file:{tmp_path}") as run:
        hooks = LightningHooks(run)
        hooks.on_train_start(trainer, None)
        hooks.on_train_batch_start(trainer, None, None, 0)
        hooks.on_exception(trainer, None, ValueError())
        with run.step():
            pass
    assert steps(whole(tmp_path).records) == 1


@pytest.mark.parametrize(
    ("make", "needs"),
    [
        (adapters.huggingface_callback, ("transformers",)),
        (adapters.lightning_callback, ("lightning", "pytorch_lightning")),
    ],
)
def test_a_framework_is_loaded_when_its_callback_is_made(
    make: Callable[[track.TrackedRun], object], needs: tuple[str, ...]
):
    """Not before; where it is missing, Python's own words say so."""
    with track.job("train") as run:
        if any(importlib.util.find_spec(name) for name in needs):
            assert type(make(run)).__name__ == "TidemillCallback"
        else:
            with pytest.raises(ModuleNotFoundError, match=needs[-1]):
                make(run)
