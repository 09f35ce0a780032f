"""A small language model on one GPU, tracked; and a stopwatch of its own that knows no Tidemill.

``python train.py JOB SECONDS STATE WATCH [--starved]``: trains for so long, saves into STATE every
100 steps and goes on from there. The stopwatch appends to WATCH, one line after every step and
before and after every checkpoint, so that a kill loses nothing of it.
"""

import json
import os
import sys
import time
from pathlib import Path

BEGAN_S = time.time()

from tidemill import track  # noqa: E402 - needs nothing but the standard library

job, seconds, state, watch = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4]
is_starved = "--starved" in sys.argv
LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH, EVERY = 12, 1536, 12, 16_384, 1024, 8, 100

with track.job(job, team="research", user="ada", gpus=1) as run:
    import torch
    from torch import nn

    class Block(nn.Module):
        """One layer of a transformer."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, t, _ = x.shape
            qkv = self.qkv(self.first(x)).view(b, t, 3, HEADS, WIDTH // HEADS)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.mlp(self.second(x))

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Embedding(WORDS, WIDTH), *(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS)
    ).to("cuda", torch.bfloat16)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    size = sum(p.numel() for p in model.parameters()) - WORDS * WIDTH
    flops = (6 * size + 6 * LAYERS * WIDTH * LENGTH) * BATCH * LENGTH  # attention is causal
    step = 0
    if Path(state).exists():
        kept = torch.load(state, map_location="cuda", weights_only=True)
        model.load_state_dict(kept["model"])
        optimiser.load_state_dict(kept["optimiser"])
        step = kept["step"]
        run.restored(step)

    log = os.open(watch, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sums = {"data_s": 0.0, "checkpoint_s": 0.0, "steps": 0, "flops": 0.0}

    def note(is_saving: bool = False) -> None:
        line = {"job": job, "pid": os.getpid(), "began_s": BEGAN_S, "at_s": time.time()}
        line |= {"up_s": up_s, "step": step, "is_saving": is_saving} | sums
        os.write(log, (json.dumps(line) + "\n").encode())

    source = torch.randint(0, WORDS, (64, BATCH, LENGTH + 1)).pin_memory()
    up_s = time.time()
    end_s = up_s + seconds
    while time.time() < end_s:
        t0 = time.perf_counter()
        with run.data():
            if is_starved:
                time.sleep(0.06)
            words = source[step % 64].to("cuda", non_blocking=True)
        t1 = time.perf_counter()
        with run.step(tokens=BATCH * LENGTH, flops=flops):
            found = model(words[:, :-1])
            loss = nn.functional.cross_entropy(found.flatten(0, 1), words[:, 1:].flatten())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
        step += 1
        sums["data_s"] += t1 - t0
        sums["steps"] += 1
        sums["flops"] += flops
        note()
        if step % EVERY == 0:
            note(is_saving=True)
            t2 = time.perf_counter()
            with run.checkpoint():
                kept = {
                    "model": model.state_dict(),
                    "optimiser": optimiser.state_dict(),
                    "step": step,
                }
                torch.save(kept, state + ".new")
                Path(state + ".new").replace(state)
            sums["checkpoint_s"] += time.perf_counter() - t2
            note()
