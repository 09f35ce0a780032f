"""A small transformer that trains: one step's time, for its model FLOPs utilisation (MFU)."""

import torch
from torch import nn
from torch.nn import functional as fn

from tidemill.probe import quantiles
from tidemill.probe.card import TransformerStep
from tidemill.probe.measure import timing

WIDTH, LAYERS, HEADS, VOCABULARY = 2048, 12, 16, 32_000
BATCH, SEQUENCE = 8, 2048


class Block(nn.Module):
    """Attention and a feed-forward part of four times the width, each with its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.between = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's part added to what came in."""
        batch, length, _ = x.shape
        parts = self.mix(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = fn.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(fn.gelu(self.up(self.between(x))))


class Small(nn.Module):
    """Tokens in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token, at each position."""
        return self.head(self.blocks(self.embed(tokens)))


class Trainer:
    """The model, its optimiser and one batch of random tokens."""

    def __init__(self) -> None:
        self.model = Small().to(device="cuda", dtype=torch.bfloat16)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE + 1), device="cuda")

    def step(self) -> None:
        """Forward, backward, update."""
        logits = self.model(self.tokens[:, :-1])
        loss = fn.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


def step(budget_s: float) -> TransformerStep:
    """How long a step takes, and how many model FLOPs it holds."""
    trainer = Trainer()
    timed = timing.seconds(trainer.step, budget_s)
    multiplied = sum(p.numel() for p in trainer.model.blocks.parameters() if p.dim() > 1)
    multiplied += trainer.model.head.weight.numel()  # the embedding is looked up, not multiplied
    tokens = BATCH * SEQUENCE
    attention = 6 * LAYERS * SEQUENCE * WIDTH * tokens  # 12·L·s·d a token, half of it causal
    return TransformerStep(
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        layers=LAYERS,
        width=WIDTH,
        tokens=tokens,
        sequence=SEQUENCE,
        flops=float(6 * multiplied * tokens + attention),
        ms=quantiles.median(timed) * 1000,
        timed=len(timed),
    )
