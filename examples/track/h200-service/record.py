"""A service on one GPU that answers under load: a decoder with a queue, and clients that ask it.

``python record.py FOLDER``. Requests join the batch as they come (at most ``BATCH`` at a time, the
others wait), each makes one token per pass. Clients ask steadily, then faster than can be answered,
then not at all for more than a minute of the clock, then again. What `tidemill.track` counts goes
to ``FOLDER/records``; the clients keep a stopwatch of their own (``FOLDER/stopwatch.json``), and
``nvidia-smi`` is asked twice a second (``FOLDER/gpu.csv``).
"""

import csv
import json
import queue
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from tidemill import track

LAYERS, WIDTH, HEADS, WINDOW, WORDS, BATCH = 24, 4096, 32, 512, 32_000, 32
STEADY_PER_S, BURST_PER_S = 1.5, 90.0
NODE = "gpu-box"


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


def quantile(values: list[float], percent: int) -> float:
    """The smallest value that this share of them does not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    began_s = time.time()
    query = "timestamp,utilization.gpu,memory.used,power.draw"
    smi = subprocess.Popen(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,nounits", "-lms", "500"],
        stdout=(folder / "gpu.csv").open("w"),
    )
    to = f"file:{folder / 'records'}"
    with track.service("chat", team="serving", user="bob", gpus=1, to=to) as served:
        torch.manual_seed(0)
        with torch.device("cuda"):
            model = Decoder().to(torch.bfloat16)
        for at in range(4):
            model(torch.zeros(BATCH, dtype=torch.long, device="cuda"), at)
        torch.cuda.synchronize()
        served.ready()
        ready_s, clients = time.time(), Clients(served)
        worker = threading.Thread(target=serve, args=(model, clients.inbox))
        worker.start()
        minute_s = (time.time() // 60 + 1) * 60
        if minute_s - time.time() > 40:  # enough is left of this one
            minute_s -= 60
        clients.ask("steady", STEADY_PER_S, minute_s + 38)
        clients.ask("burst", BURST_PER_S, minute_s + 50)
        while any(one.left for one in clients.asked):
            time.sleep(0.05)
        quiet_s = time.time()
        time.sleep(max(0.0, (quiet_s // 60 + 2) * 60 + 1.5 - time.time()))
        asking_s = time.time()
        clients.ask("again", STEADY_PER_S, time.time() + 15)
        clients.inbox.put(None)
        worker.join()
    end_s = time.time()
    smi.terminate()
    phases = ("steady", "burst", "again")
    told = {
        "began_s": began_s,
        "ready_s": ready_s,
        "quiet_s": quiet_s,
        "asking_s": asking_s,
        "end_s": end_s,
        "phases": {phase: clients.watched((phase,)) for phase in phases},
        "all": clients.watched(phases),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    (folder / "stopwatch.json").write_text(json.dumps(told, indent=1) + "\n")
    with (folder / "jobs.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(("job", "team", "user", "gpus", "submit", "start", "end", "state", "node"))
        table.writerow(("chat", "serving", "bob", 1, began_s, began_s, end_s, "completed", NODE))


main()
