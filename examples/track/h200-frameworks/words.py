"""Random words that take a while to come, and a small language model's sizes."""

import time

import torch
from torch.utils.data import Dataset

WORDS, LENGTH, BATCH = 16_384, 512, 8


class SlowWords(Dataset[dict[str, torch.Tensor]]):
    """Each row takes 4 ms to come, as from a slow disk."""

    def __init__(self, rows: int) -> None:
        self.rows = torch.randint(0, WORDS, (rows, LENGTH), generator=torch.manual_seed(1))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        time.sleep(0.004)
        return {"input_ids": self.rows[row], "labels": self.rows[row]}
