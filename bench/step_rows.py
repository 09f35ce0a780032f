"""Published training runs, with what the step-time model needs to know of each.

Facts only: sizes, schedule and what the program hid behind compute, as the source (or the scripts
published with it) says. Five rows of SC'21's table 1 set the constants of ``units.silicon`` for
A100, four of MPT's those for H100; they are marked. No other row was used for that.

Not all of them were read in the source: both MegaScale groups, the 175 billion and 1 trillion rows
of the sequence-parallel paper and the five calibration rows of SC'21 were written down from memory,
and agree only with themselves (tokens a second, MFU). Check them before quoting.
"""

from typing import NamedTuple

from tidemill.model.topology import Parallelism
from tidemill.units import flops, machine
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.flops import Recompute
from tidemill.units.machine import Machine
from tidemill.units.model_zoo import Zoo
from tidemill.units.models import Model
from tidemill.units.overlap import Behind, Hiding
from tidemill.units.step import TrainingRun
from tidemill.units.training import Training

SC21 = "Narayanan et al., SC'21 (arXiv 2104.04473)"
SEQUENCE = "Korthikanti et al. 2022 (arXiv 2205.05198), tables 3 and 5"
MEGASCALE = "Jiang et al., NSDI'24 (arXiv 2402.15627), table 2"
LLAMA3 = "Grattafiori et al. 2024 (arXiv 2407.21783), table 4"
PALM = "Chowdhery et al. 2022 (arXiv 2204.02311), section 4 and appendix B"
MPT = "mosaicml/llm-foundry@c90b9b3, scripts/train/benchmarking/README.md"


class Row(NamedTuple):
    """One run: what it was, and how many seconds its step took."""

    group: str
    name: str
    run: TrainingRun
    seconds: float
    source: str
    is_calibration: bool = False


def rows() -> list[Row]:
    """All of them."""
    return [*sc21_table1(), *sc21_table2(), *sequence(), *megascale(), *llama3(), *palm(), *mpt()]


def _selene() -> Machine:
    """DGX A100 80 GB, eight 200 Gb/s cards for eight GPUs."""
    return machine.of(Catalogue().part("a100-sxm-80"), 8, 200)


def _gpt_flops(model: Model, batch: int, sequence: int) -> float:
    """Equation 3 of SC'21: with full recomputation."""
    h, layers = model.hidden, model.layers
    extra = 1 + sequence / (6 * h) + model.vocabulary / (16 * layers * h)
    return 96 * batch * sequence * layers * h * h * extra


def sc21_table1() -> list[Row]:
    """Weak scaling from 1.7 to 1,008 billion parameters; micro-batches by the published scripts."""
    old = Hiding(tensor=Behind.NONE, data=False, pipeline=False)
    found = []
    for name, tp, pp, gpus, batch, micro, chunks, tflops, calibrates in (
        ("1.7b", 1, 1, 32, 512, 16, 1, 137, False),
        ("3.6b", 2, 1, 64, 512, 16, 1, 138, True),
        ("7.5b", 4, 1, 128, 512, 16, 1, 142, False),
        ("18b", 8, 1, 256, 1024, 8, 1, 135, True),
        ("39b", 8, 2, 512, 1536, 4, 1, 138, False),
        ("76b", 8, 4, 1024, 1792, 2, 3, 140, True),
        ("145b", 8, 8, 1536, 2304, 2, 2, 148, False),
        ("310b", 8, 16, 1920, 2160, 1, 2, 155, True),
        ("530b", 8, 35, 2520, 2520, 1, 3, 163, False),
        ("1008b", 8, 64, 3072, 3072, 1, 1, 163, True),
    ):
        model = Zoo().model(f"megatron-{name}")
        stated = _sizes(gpus, tp, pp, batch)
        how = Training(
            micro_batch=micro, interleave=chunks, recompute=Recompute.FULL, zero=0,
            is_sequence_parallel=False, is_fused=False,
        )  # fmt: skip
        hiding = old if pp > 1 else Hiding(tensor=Behind.NONE, data=True)  # --DDP-impl torch
        seconds = _gpt_flops(model, batch, 2048) / (gpus * tflops * 1e12)
        found.append(Row("sc21 table 1", name, TrainingRun(model, stated, how, hiding, _selene()),
                         seconds, f"{SC21}, table 1; examples/sc21", calibrates))  # fmt: skip
    return found


def sc21_table2() -> list[Row]:
    """The same two models on more and more GPUs."""
    found = []
    how = Training(recompute=Recompute.FULL, zero=0, is_sequence_parallel=False, is_fused=False)
    hiding = Hiding(tensor=Behind.NONE, data=False, pipeline=False)
    for key, pp, batch, runs in (
        ("gpt-3-175b", 12, 1536, ((384, 153), (768, 149), (1536, 141))),
        ("megatron-530b", 35, 2240, ((560, 171), (1120, 167), (2240, 159))),
    ):
        model = Zoo().model(key)
        for gpus, tflops in runs:
            run = TrainingRun(model, _sizes(gpus, 8, pp, batch), how, hiding, _selene())
            seconds = _gpt_flops(model, batch, 2048) / (gpus * tflops * 1e12)
            found.append(Row("sc21 table 2", f"{key} on {gpus}", run, seconds, f"{SC21}, table 2"))
    return found


def sequence() -> list[Row]:
    """Full recomputation against sequence parallelism with selective recomputation."""
    found = []
    hiding = Hiding(tensor=Behind.BACKWARD, data=False, pipeline=False)
    for key, pp, gpus, batch, micro, chunks, full, present in (
        ("megatron-22b", 1, 8, 4, 4, 1, 1.42, 1.10),
        ("gpt-3-175b", 8, 64, 64, 1, 3, 18.13, 13.75),
        ("megatron-530b", 35, 280, 280, 1, 3, 49.05, 37.83),
        ("megatron-1t", 64, 512, 512, 1, 1, 94.42, 71.49),
    ):
        model, stated = Zoo().model(key), _sizes(gpus, 8, pp, batch)
        for name, seconds, recompute in (
            ("full", full, Recompute.FULL),
            ("selective", present, Recompute.SELECTIVE),
        ):
            how = Training(
                micro_batch=micro, interleave=chunks, recompute=recompute, zero=0,
                is_sequence_parallel=recompute is Recompute.SELECTIVE, is_fused=False,
            )  # fmt: skip
            run = TrainingRun(model, stated, how, hiding, _selene())
            found.append(Row("sequence parallel", f"{key} {name}", run, seconds, SEQUENCE))
    return found


def megascale() -> list[Row]:
    """175 billion parameters, strong scaling, MegaScale beside the Megatron-LM it started from.

    What that Megatron-LM recomputed is not said; taken as in its own paper of 2022.
    """
    found = []
    model = Model(key="megascale-175b", layers=96, hidden=12_288, heads=128, vocabulary=64_000,
                  has_biases=True, source=MEGASCALE)  # fmt: skip
    beside = Model(key="megascale-175b", layers=96, hidden=12_288, heads=128, vocabulary=64_000,
                   has_biases=True, is_parallel=True, source=MEGASCALE)  # fmt: skip
    plain = Training(interleave=6, optimiser="adam-fp32-gradients", is_fused=False)
    fused = Training(interleave=6, optimiser="adam-fp32-gradients", recompute=Recompute.NONE)
    for gpus, batch, megatron_s, megascale_s in (
        (256, 768, 40.0, 32.0),
        (512, 768, 21.2, 16.5),
        (768, 768, 15.2, 11.5),
        (1024, 768, 11.9, 8.9),
        (3072, 6144, 29.02, 23.66),
        (6144, 6144, 14.78, 12.21),
        (8192, 6144, 12.24, 9.56),
        (12288, 6144, 8.57, 6.34),
    ):
        stated = _sizes(gpus, 8, 8, batch)
        old = Hiding(tensor=Behind.BACKWARD, data=False, pipeline=False)
        new = Hiding(tensor=Behind.ALL, data=True, pipeline=True)
        found.append(
            Row(
                "megascale: megatron",
                f"175b on {gpus}",
                TrainingRun(model, stated, plain, old, _selene()),
                megatron_s,
                MEGASCALE,
            )
        )
        found.append(
            Row(
                "megascale",
                f"175b on {gpus}",
                TrainingRun(beside, stated, fused, new, _selene()),
                megascale_s,
                MEGASCALE,
            )
        )
    return found  # fmt: skip


def llama3() -> list[Row]:
    """405 billion parameters on H100 with 400 Gb/s each; TFLOP/s as printed, mask taken off.

    126 layers and both ends on 16 stages are eight chunks of one layer each (section 3.3.2).
    """
    found = []
    model = Zoo().model("llama-3-405b")
    where = machine.of(Catalogue().part("h100-sxm-80"), 8, 400)
    how = Training(interleave=8, recompute=Recompute.NONE, zero=2, optimiser="adam-fp32-gradients")
    for gpus, cp, seq, batch, tflops in (
        (8192, 1, 8192, 2048, 430),
        (16384, 1, 8192, 2048, 400),
        (16384, 16, 131_072, 128, 380),
    ):
        stated = _sizes(gpus, 8, 16, batch, seq, cp)
        seconds = _causal_flops(model, batch, seq) / (gpus * tflops * 1e12)
        run = TrainingRun(model, stated, how, Hiding(), where)
        found.append(Row("llama 3", f"405b on {gpus}, {seq} tokens", run, seconds, LLAMA3))
    return found


def _causal_flops(model: Model, batch: int, sequence: int) -> float:
    return flops.training(model, batch, sequence, is_causal=True).total


def palm() -> list[Row]:
    """540 billion parameters on two pods of 3,072 TPU v4; no constant of a TPU was ever set.

    Six links of 45 GB/s a chip; between pods 81 Tb/s together, as the paper says.
    """
    model = Zoo().model("palm-540b")
    tpu = Catalogue().part("tpu-v4")
    stated = _sizes(6144, 12, 1, 2048)
    how = Training(micro_batch=4, recompute=Recompute.FULL, zero=3, is_sequence_parallel=True)
    run = TrainingRun(
        model, stated, how, Hiding(tensor=Behind.ALL), machine.pod(tpu, 3072, 270, 1.65)
    )
    return [Row("palm", "540b on 6144 TPU v4", run, 2048 * 2048 / 238_300, PALM)]


def mpt() -> list[Row]:
    """Fully sharded training without tensor or pipeline ranks: A100 80 GB with 1,600 Gb/s a node,
    H100 with 3,200.
    """
    sizes = {"70b": (80, 8192, 64), "30b": (48, 7168, 56), "13b": (40, 5120, 40),
             "7b": (32, 4096, 32), "3b": (32, 2560, 20), "1b": (24, 2048, 16)}  # fmt: skip
    found = []
    for part, nic, name, gpus, batch, micro, per_s, again, calibrates in MPT_RUNS:
        layers, hidden, heads = sizes[name]
        model = Model(key=f"mpt-{name}", layers=layers, hidden=hidden, heads=heads,
                      vocabulary=50_432, source=MPT)  # fmt: skip
        how = Training(micro_batch=micro, recompute=again, zero=3, is_sequence_parallel=False)
        where = machine.of(Catalogue().part(part), 8, nic)
        run = TrainingRun(model, _sizes(gpus, 1, 1, batch), how, Hiding(), where)
        found.append(Row(f"mpt {part[:4]}", f"{name} on {gpus}", run, batch * 2048 / per_s, MPT,
                         calibrates))  # fmt: skip
    return found


A, H = ("a100-sxm-80", 200), ("h100-sxm-80", 400)
MPT_RUNS = (
    (*A, "70b", 64, 2048, 8, 26_274, Recompute.FULL, False),
    (*A, "70b", 32, 1024, 2, 11_962, Recompute.FULL, False),
    (*A, "30b", 8, 504, 3, 7_330, Recompute.FULL, False),
    (*A, "13b", 8, 48, 2, 18_097, Recompute.NONE, False),
    (*A, "7b", 8, 96, 6, 37_130, Recompute.NONE, False),
    (*A, "3b", 8, 160, 10, 86_491, Recompute.NONE, False),
    (*A, "1b", 8, 448, 14, 164_109, Recompute.NONE, False),
    (*H, "70b", 512, 4096, 8, 515_636, Recompute.FULL, False),
    (*H, "70b", 256, 2048, 8, 265_149, Recompute.FULL, True),
    (*H, "70b", 128, 1024, 8, 135_490, Recompute.FULL, False),
    (*H, "30b", 512, 4096, 8, 1_083_366, Recompute.FULL, False),
    (*H, "30b", 256, 2048, 8, 550_022, Recompute.FULL, True),
    (*H, "30b", 128, 1024, 8, 281_491, Recompute.FULL, False),
    (*H, "13b", 512, 8192, 16, 2_535_811, Recompute.FULL, False),
    (*H, "13b", 256, 4096, 16, 1_277_214, Recompute.FULL, True),
    (*H, "13b", 128, 2048, 16, 650_264, Recompute.FULL, False),
    (*H, "7b", 512, 3072, 6, 4_951_479, Recompute.NONE, False),
    (*H, "7b", 256, 1536, 6, 2_590_548, Recompute.NONE, True),
    (*H, "7b", 128, 768, 6, 1_340_830, Recompute.NONE, False),
)


def _sizes(
    gpus: int, tp: int, pp: int, batch: int, sequence: int = 2048, cp: int = 1
) -> Parallelism:
    return Parallelism(
        tensor=tp, context=cp, pipeline=pp, data=gpus // (tp * cp * pp), sequence=sequence,
        batch=batch,
    )  # fmt: skip
