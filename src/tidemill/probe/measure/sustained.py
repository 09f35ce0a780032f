"""A product repeated without rest: the rate that remains when the card is warm, and its power."""

import time
from statistics import fmean

import torch

from tidemill.probe.card import Precision, Sustained
from tidemill.probe.measure import rates
from tidemill.probe.measure.sampler import Sampler

SETTLING = 0.3
"""The first share of the samples, in which power and clocks still move."""
AT_ONCE = 20


def sustained(index: int, budget_s: float, precision: Precision = "bf16") -> Sustained:
    """Multiply for ``budget_s`` and watch."""
    product = rates.work(precision, rates.SIZE)
    product()
    torch.cuda.synchronize()
    done, begun = 0, time.monotonic()
    with Sampler(index) as sampler:
        while time.monotonic() - begun < budget_s:
            for _ in range(AT_ONCE):
                product()
            torch.cuda.synchronize()
            done += AT_ONCE
        took = time.monotonic() - begun
    settled = sampler.samples[int(len(sampler.samples) * SETTLING) :]
    tflops = 2 * rates.SIZE**3 * done / took / 1e12
    if not settled:
        return Sustained(precision=precision, seconds=took, tflops=tflops)
    return Sustained(
        precision=precision,
        seconds=took,
        tflops=tflops,
        watts_mean=fmean(sample.watts for sample in settled),
        watts_max=max(sample.watts for sample in settled),
        sm_mhz_mean=fmean(sample.sm_mhz for sample in settled),
        sm_mhz_min=min(sample.sm_mhz for sample in settled),
        memory_mhz=max(sample.memory_mhz for sample in settled),
        celsius_max=max(sample.celsius for sample in settled),
        samples=len(settled),
    )
