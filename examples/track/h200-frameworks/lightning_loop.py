"""The ``Trainer`` of PyTorch Lightning, tracked by its callback; a stopwatch beside it.

``python lightning_loop.py JOB STEPS FOLDER WATCH``: a step has two batches, it saves every 100
steps into FOLDER, validates every 150 batches, and goes on from the last checkpoint that is there.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from watch import Stopwatch

from tidemill import track
from tidemill.track.adapters import lightning_callback

job, steps, folder, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

with track.job(job, team="research", user="ada", gpus=1) as run:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from words import BATCH, LENGTH, WORDS, SlowWords

    try:
        import lightning.pytorch as pl
        from lightning.pytorch.callbacks import ModelCheckpoint
    except ModuleNotFoundError:
        import pytorch_lightning as pl
        from pytorch_lightning.callbacks import ModelCheckpoint

    stopwatch = Stopwatch(path, job)
    WIDTH = 1024

    class Model(pl.LightningModule):
        """A small transformer."""

        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True)
            self.net = nn.Sequential(
                nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, 8), nn.Linear(WIDTH, WORDS)
            )

        def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            """Of one batch."""
            found = self.net(batch["input_ids"])
            return nn.functional.cross_entropy(found.flatten(0, 1), batch["labels"].flatten())

        def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
            """Of one batch, waited for."""
            loss = self.loss(batch)
            loss.item()
            return loss

        def validation_step(self, batch: dict[str, torch.Tensor], _: int) -> None:
            """Of one batch."""
            self.loss(batch).item()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """AdamW."""
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    class Watched(pl.Callback):
        """Tells the stopwatch when training begins, and when a batch is done."""

        def on_train_start(self, *_: object) -> None:
            """The loop is about to ask for its first batch."""
            stopwatch.up()

        def on_train_batch_end(self, *_: object) -> None:
            """A batch is done: half a step."""
            stopwatch.step(flops / 2)

    class TimedLoader(DataLoader[dict[str, torch.Tensor]]):
        """Its batches, timed."""

        def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
            fetch = stopwatch.around("data", super().__iter__().__next__)
            with suppress(StopIteration):
                while True:
                    batch = fetch()
                    yield batch

    model = Model()
    size = sum(one.numel() for one in model.parameters()) - WORDS * WIDTH  # no product in it
    flops = 6 * size * 2 * BATCH * LENGTH
    saving = ModelCheckpoint(folder, "{step}", every_n_train_steps=100, save_top_k=-1)
    trainer = pl.Trainer(
        max_steps=steps, accumulate_grad_batches=2, precision="bf16-mixed", logger=False,
        callbacks=[lightning_callback(run, flops), Watched(), saving], val_check_interval=150,
        check_val_every_n_epoch=None, num_sanity_val_steps=0, enable_progress_bar=False,
    )  # fmt: skip
    trainer.strategy.save_checkpoint = stopwatch.around(
        "checkpoint", trainer.strategy.save_checkpoint
    )
    kept = sorted(Path(folder).glob("*.ckpt"), key=lambda one: one.stat().st_mtime)
    loader, checking = TimedLoader(SlowWords(40_000), BATCH), DataLoader(SlowWords(64), BATCH)
    trainer.fit(model, loader, checking, ckpt_path=kept[-1] if kept else None)
