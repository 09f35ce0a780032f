"""Memory and roofline held against a real device.

``python bench/silicon.py > measured.json`` on a machine with torch and a GPU (it needs nothing else
of this project); ``python -m bench.silicon_model measured.json PART`` sets the model beside it.
Layers are those of Llama 3 8B and of a plain GPT, eight of them, 16-bit, eager torch; decoding is
captured as one graph, so that launches cost nothing. Times are medians.
"""

import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as fn

LAYERS = 8
CONTEXT = 4096
BATCHES = (1, 8, 32, 128, 256)
SEQUENCES = ((1, 8192), (2, 4096), (4, 2048))
REPEATS = 15

Weights = dict[str, torch.Tensor]

HIDDEN, HEADS, KV, HEAD, FFN = 4096, 32, 8, 128, 14_336


def measure() -> dict[str, Any]:
    """Everything, on the first GPU."""
    torch.manual_seed(0)
    weights = [_weights() for _ in range(LAYERS)]
    return {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "decode": {str(batch): _decode(weights, batch) for batch in BATCHES},
        "train": [
            {"batch": batch, "sequence": sequence, **_train(weights, batch, sequence)}
            for batch, sequence in SEQUENCES
        ],
        "gpt_layer_bytes": _gpt_layer_bytes(),
    }


def _weights() -> Weights:
    shapes = {
        "qkv": (HIDDEN, (HEADS + 2 * KV) * HEAD),
        "out": (HEADS * HEAD, HIDDEN),
        "up": (HIDDEN, 2 * FFN),
        "down": (FFN, HIDDEN),
    }
    made = {
        name: (torch.randn(shape, device="cuda") * 0.02).bfloat16().requires_grad_()
        for name, shape in shapes.items()
    }
    norms = {f"norm{i}": torch.ones(HIDDEN, device="cuda").bfloat16() for i in (1, 2)}
    return made | norms


def _decode(weights: list[Weights], batch: int) -> dict[str, float]:
    """One token for each sequence: with its cache, and attention alone."""
    shape = (LAYERS, 2, batch, KV, CONTEXT, HEAD)
    cache = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    x = torch.randn((batch, HIDDEN), device="cuda", dtype=torch.bfloat16)

    def attend(q: torch.Tensor, layer: int) -> torch.Tensor:
        grouped = q.view(batch, KV, HEADS // KV, HEAD)
        seen = fn.scaled_dot_product_attention(grouped, cache[layer, 0], cache[layer, 1])
        return seen.reshape(batch, HEADS * HEAD)

    def token() -> torch.Tensor:
        y = x
        for layer, w in enumerate(weights):
            qkv = fn.rms_norm(y, (HIDDEN,), w["norm1"]) @ w["qkv"]
            y = y + attend(qkv[:, : HEADS * HEAD].contiguous(), layer) @ w["out"]
            gate, up = (fn.rms_norm(y, (HIDDEN,), w["norm2"]) @ w["up"]).chunk(2, dim=1)
            y = y + (fn.silu(gate) * up) @ w["down"]
        return y

    def attention() -> None:
        for layer in range(LAYERS):
            attend(x, layer)

    with torch.no_grad():
        return {
            "seconds": _graphed(token),
            "attention_s": _graphed(attention),
        }


def _train(weights: list[Weights], batch: int, sequence: int) -> dict[str, Any]:
    """Forward and backward of a micro-batch, and what the forward pass keeps."""

    def layer(x: torch.Tensor, w: Weights) -> torch.Tensor:
        qkv = fn.rms_norm(x, (HIDDEN,), w["norm1"]) @ w["qkv"]
        q, k, v = qkv.split((HEADS * HEAD, KV * HEAD, KV * HEAD), dim=2)
        q, k, v = (t.view(batch, sequence, -1, HEAD).transpose(1, 2) for t in (q, k, v))
        seen = fn.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + seen.transpose(1, 2).reshape(batch, sequence, -1) @ w["out"]
        gate, up = (fn.rms_norm(x, (HIDDEN,), w["norm2"]) @ w["up"]).chunk(2, dim=2)
        return x + (fn.silu(gate) * up) @ w["down"]

    def forward() -> torch.Tensor:
        y = torch.randn((batch, sequence, HIDDEN), device="cuda", dtype=torch.bfloat16)
        y.requires_grad_()
        for w in weights:
            y = layer(y, w)
        return y

    def step() -> None:
        forward().sum().backward()
        for w in weights:
            for weight in w.values():
                weight.grad = None

    def ahead() -> None:
        with torch.no_grad():
            forward()

    before = torch.cuda.memory_allocated()
    kept = forward()
    held = torch.cuda.memory_allocated() - before
    del kept
    return {
        "forward_s": _timed(ahead),
        "step_s": _timed(step),
        "layer_bytes": held / LAYERS,
    }


def _gpt_layer_bytes() -> dict[str, float]:
    """What one layer of a plain GPT (hidden 4096, 32 heads, dropout) keeps of 2,048 tokens."""
    found = {}
    for name, attention in (("fused", True), ("plain", False)):
        sizes = ((HIDDEN, 3 * HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN, HIDDEN))
        linear = [nn.Linear(*size) for size in sizes]
        parts = (nn.LayerNorm(HIDDEN), *linear[:2], nn.LayerNorm(HIDDEN), *linear[2:])
        n1, qkv, out, n2, up, down = (p.to(device="cuda", dtype=torch.bfloat16) for p in parts)
        x = torch.randn((2048, 1, 4096), device="cuda", dtype=torch.bfloat16, requires_grad=True)

        def mix(
            q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_fused: bool = attention
        ) -> torch.Tensor:
            if is_fused:
                return fn.scaled_dot_product_attention(q, k, v, is_causal=True)
            scores = q @ k.transpose(2, 3)
            return fn.dropout(fn.softmax(scores, dim=3), 0.1) @ v

        before = torch.cuda.memory_allocated()
        h = qkv(n1(x)).view(2048, 1, 3, 32, 128).permute(2, 1, 3, 0, 4)
        seen = mix(h[0], h[1], h[2]).permute(2, 0, 1, 3).reshape(2048, 1, 4096)
        y = x + fn.dropout(out(seen), 0.1)
        y = y + fn.dropout(down(fn.gelu(up(n2(y)))), 0.1)
        del h, seen
        found[name] = torch.cuda.memory_allocated() - before
        del y
    return found


def _timed(work: Callable[[], object]) -> float:
    """The median of some runs, after two to warm up."""
    took = []
    for i in range(REPEATS + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            took.append(start.elapsed_time(end) / 1e3)
    return statistics.median(took)


def _graphed(work: Callable[[], object]) -> float:
    """The same as one graph: no time between kernels."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return _timed(graph.replay)


def main() -> None:
    """Measure, and print."""
    print(json.dumps(measure(), indent=1))


if __name__ == "__main__":
    main()
