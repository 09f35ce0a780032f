"""What ``bench/silicon.py`` measured on a device, beside what the model of a unit says of it."""

import json
import sys
from pathlib import Path
from typing import Any

from tidemill.model.topology import Parallelism
from tidemill.units import kernel_work, memory, roofline
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.flops import Recompute
from tidemill.units.models import Model
from tidemill.units.serving import Serving
from tidemill.units.training import Training

LAYERS, CONTEXT = 8, 4096
LLAMA = Model(key="layers", layers=LAYERS, hidden=4096, heads=32, kv_heads=8, ffn=14_336,
              is_gated=True, vocabulary=1)  # fmt: skip
GPT = Model(key="gpt", layers=1, hidden=4096, heads=32, has_biases=True, has_dropout=True)


def compare(measured: dict[str, Any], name: str) -> dict[str, Any]:
    """The model beside what was measured: least time over time, bytes over bytes."""
    under = roofline.ceilings(Catalogue().part(name), "bf16")
    found: dict[str, Any] = {"decode": [], "train": [], "gpt": {}}
    for batch, took in measured["decode"].items():
        pieces = kernel_work.decode(LLAMA, Parallelism(sequence=1),
                             Serving(batch=int(batch), context=CONTEXT))  # fmt: skip
        least = roofline.seconds(pieces, under)
        alone = roofline.seconds([p for p in pieces if p.name == "attention"], under)
        found["decode"].append(
            {"batch": int(batch), "least_ms": least * 1e3, "measured_ms": took["seconds"] * 1e3,
             "share": least / took["seconds"], "attention_share": alone / took["attention_s"],
             "rest_share": (least - alone) / (took["seconds"] - took["attention_s"])}
        )  # fmt: skip
    for row in measured["train"]:
        stated = Parallelism(sequence=row["sequence"], batch=row["batch"])
        how = Training(micro_batch=row["batch"], recompute=Recompute.NONE, is_fused=True)
        pieces = tuple(p for p in kernel_work.step(LLAMA, stated, how) if p.name != "optimiser")
        least = roofline.seconds(pieces, under)
        kept = memory.layer_activations(LLAMA, stated, how, routed=False)
        flops = sum(piece.flops for piece in pieces)
        found["train"].append(
            {"batch": row["batch"], "sequence": row["sequence"], "least_ms": least * 1e3,
             "measured_ms": row["step_s"] * 1e3, "share": least / row["step_s"],
             "of_peak": flops / row["step_s"] / under.flops_per_s,
             "kept_model_mb": kept / 1e6, "kept_measured_mb": row["layer_bytes"] / 1e6}
        )  # fmt: skip
    for kind, is_fused in (("fused", True), ("plain", False)):
        how = Training(recompute=Recompute.NONE, is_fused=is_fused, is_sequence_parallel=False)
        kept = memory.layer_activations(GPT, Parallelism(sequence=2048), how, routed=False)
        found["gpt"][kind] = {
            "model_mb": kept / 1e6, "measured_mb": measured["gpt_layer_bytes"][kind] / 1e6
        }  # fmt: skip
    return found


def main() -> None:
    """Compare, and print."""
    measured = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps(compare(measured, sys.argv[2]), indent=1))


if __name__ == "__main__":
    main()
