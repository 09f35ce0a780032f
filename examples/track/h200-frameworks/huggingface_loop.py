"""The ``Trainer`` of Hugging Face transformers, tracked by its callback; a stopwatch beside it.

``python huggingface_loop.py JOB STEPS FOLDER WATCH``: saves every 100 steps into FOLDER, evaluates
every 150, and goes on from the last checkpoint that is there. The stopwatch is around the trainer's
own methods, which the callback does not touch.
"""

import sys

from watch import Stopwatch

from tidemill import track
from tidemill.track.adapters import huggingface_callback

job, steps, folder, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

with track.job(job, team="research", user="ada", gpus=1) as run:
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )
    from transformers.trainer_utils import get_last_checkpoint
    from words import BATCH, LENGTH, WORDS, SlowWords

    stopwatch = Stopwatch(path, job)

    class Watched(TrainerCallback):
        """Tells the stopwatch when training begins, and when a step is done."""

        def on_train_begin(self, *_: object, **__: object) -> None:
            """The loop is about to ask for its first batch."""
            stopwatch.up()

        def on_step_end(self, *_: object, **__: object) -> None:
            """A step is done."""
            stopwatch.step(flops)

    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=1024, n_layer=12, n_head=16)
    arguments = TrainingArguments(
        folder, max_steps=steps, per_device_train_batch_size=BATCH, bf16=True, save_steps=100,
        save_total_limit=2, eval_strategy="steps", eval_steps=150, logging_steps=50, report_to=[],
        dataloader_num_workers=0, disable_tqdm=True,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    flops = 6 * model.num_parameters(exclude_embeddings=True) * BATCH * LENGTH
    trainer = Trainer(
        model, arguments, train_dataset=SlowWords(40_000),
        eval_dataset=SlowWords(64), callbacks=[huggingface_callback(run, flops), Watched()],
    )  # fmt: skip
    trainer.get_batch_samples = stopwatch.around("data", trainer.get_batch_samples)
    trainer._save_checkpoint = stopwatch.around("checkpoint", trainer._save_checkpoint)
    trainer.evaluate = stopwatch.around("evaluation", trainer.evaluate)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
