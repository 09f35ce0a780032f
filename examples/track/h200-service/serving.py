"""A decoder with random weights that answers up to ``BATCH`` requests at a time, and its clients.

Requests join the batch as they come, the others wait; each makes one token per pass. Clients keep a
stopwatch of their own. ``h200-shared`` runs the same beside a training loop.
"""

import queue
import random
import time

import torch
from torch import Tensor, nn

from tidemill import track

LAYERS, WIDTH, HEADS, WINDOW, WORDS, BATCH = 24, 4096, 32, 512, 32_000, 32


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.take, self.give = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, at: int) -> Tensor:
        q, k, v = self.take(x).chunk(3, -1)
        keys[: len(x), :, at], values[: len(x), :, at] = _heads(k), _heads(v)
        seen = nn.functional.scaled_dot_product_attention(
            _heads(q)[:, :, None], keys[: len(x)], values[: len(x)]
        )
        x = x + self.give(seen[:, :, 0].flatten(1))
        return x + self.down(nn.functional.gelu(self.up(x)))


def _heads(x: Tensor) -> Tensor:
    return x.view(len(x), HEADS, WIDTH // HEADS)


class Decoder(nn.Module):
    """Random weights: what is said is nonsense, what it costs is real."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        shape = (LAYERS, BATCH, HEADS, WINDOW, WIDTH // HEADS)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    @torch.no_grad()
    def forward(self, words: Tensor, at: int) -> Tensor:
        x = self.words(words)
        for layer, keys, values in zip(self.layers, self.keys, self.values, strict=True):
            x = layer(x, keys, values, at)
        return self.out(x).argmax(-1)


class Asked:
    """One request, as the client sees it and as the service does."""

    def __init__(self, phase: str, tokens_in: int, tokens: int) -> None:
        self.phase, self.tokens_in, self.left, self.made = phase, tokens_in, tokens, 0
        self.sent_s = time.perf_counter()
        self.first_s = self.last_s = 0.0
        self.gaps_s: list[float] = []
        self.told: track.serving.ServedRequest

    def got(self) -> None:
        now_s = time.perf_counter()
        if self.made:
            self.gaps_s.append(now_s - self.last_s)
        else:
            self.first_s = now_s
        self.made, self.last_s = self.made + 1, now_s


def serve(model: Decoder, inbox: "queue.Queue[Asked | None]") -> None:
    """Answer until told to stop."""
    running, step, is_over = list[Asked](), 0, False
    while running or not is_over:
        while len(running) < BATCH and not is_over:
            try:
                one = inbox.get(block=not running, timeout=0.25)
            except queue.Empty:
                break
            if one is None:
                is_over = True
                break
            one.told.begun()
            running.append(one)
        if not running:
            continue
        words = torch.randint(0, WORDS, (len(running),), device="cuda")
        model(words, step % WINDOW)
        torch.cuda.synchronize()
        step += 1
        for one in running:
            one.told.token()
            one.got()
            one.left -= 1
            if not one.left:
                one.told.__exit__(None, None, None)
        running = [one for one in running if one.left]


class Clients:
    """Those who ask, and what they waited for."""

    def __init__(self, served: track.TrackedService) -> None:
        self.served, self.luck, self.asked = served, random.Random(1), list[Asked]()
        self.inbox: queue.Queue[Asked | None] = queue.Queue()

    def ask(self, phase: str, per_s: float, until_s: float) -> None:
        """Ask that often, until a moment of the clock."""
        luck = self.luck
        while (wait_s := luck.expovariate(per_s)) + time.time() < until_s:
            time.sleep(wait_s)
            one = Asked(phase, luck.randrange(50, 400), luck.randrange(40, 120))
            one.told = self.served.request(tokens_in=one.tokens_in)
            one.told.__enter__()
            self.asked.append(one)
            self.inbox.put(one)

    def watched(self, phases: tuple[str, ...]) -> dict[str, float]:
        """What the stopwatch says of the requests of these phases."""
        some = [one for one in self.asked if one.phase in phases]
        times = {
            "first_token": [one.first_s - one.sent_s for one in some],
            "whole": [one.last_s - one.sent_s for one in some],
            "between_tokens": [gap for one in some for gap in one.gaps_s],
        }
        found: dict[str, float] = {
            "requests": len(some),
            "tokens_in": sum(one.tokens_in for one in some),
            "tokens_out": sum(one.made for one in some),
        }
        for name, values in times.items():
            for percent in (50, 99):
                found[f"{name}_s_p{percent}"] = round(quantile(values, percent), 6)
        return found


def loaded() -> Decoder:
    """A decoder on the GPU that has made its first tokens."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Decoder().to(torch.bfloat16)
    for at in range(4):
        model(torch.zeros(BATCH, dtype=torch.long, device="cuda"), at)
    torch.cuda.synchronize()
    return model


def quantile(values: list[float], percent: int) -> float:
    """The smallest value that this share of them does not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]
