"""Named workloads that look like published clusters.

Figures as published in ``data/cluster_summary.csv`` of AcmeTrace (Hu et al., *Characterization of
Large Language Model Development in the Datacenter*, NSDI'24; CC-BY-4.0), which compares its own
clusters Seren and Kalos with Philly (Jeon et al., ATC'19), Helios (Hu et al., SC'21) and PAI (Weng
et al., NSDI'22). GPU jobs only. What a figure cannot tell is chosen and says so.
"""

from functools import lru_cache
from typing import NamedTuple

from tidemill.model.decoding import nearest
from tidemill.model.errors import SpecError
from tidemill.model.measures import SECOND_MS
from tidemill.twin import durations, sizes
from tidemill.twin.mix import JobMix
from tidemill.twin.sizes import JobSizes


class Published(NamedTuple):
    """One row of the table, in its own units."""

    median_run_s: float
    mean_run_s: float
    longest_run_s: float
    mean_gpus: float
    largest_gpus: int
    mean_gpu_s: float  # GPU time of the average job: the three `*_gpu_time` columns over jobs
    cancel_share: float
    fail_share: float


class Preset(NamedTuple):
    """The published figures and the two choices that they leave open.

    ``ones``: the share of one-GPU jobs; every median size but PAI's is 1, so at least a half.
    ``coupling``: solved so that ``Mix.mean_milli_ms`` meets ``mean_gpu_s``.
    """

    published: Published
    ones: float
    coupling: float


PRESETS = {
    "philly": Preset(
        Published(874.0, 18006.055, 4240676.0, 1.928, 128, 61038.97, 0.09, 0.305), 0.85, 0.2182
    ),
    "helios": Preset(
        Published(206.0, 6651.681, 4320009.0, 3.716, 2048, 49351.17, 0.221, 0.155), 0.7, 0.176
    ),
    "seren": Preset(
        Published(122.0, 1414.335, 1209604.0, 5.68, 1024, 32404.64, 0.075, 0.429), 0.6, 0.3792
    ),
    "kalos": Preset(
        Published(124.0, 1259.689, 625740.0, 26.77, 1024, 267904.76, 0.062, 0.397), 0.55, 0.6683
    ),
    # PAI publishes no endings and no GPU time (0: unknown), and shares its GPUs.
    "pai": Preset(Published(480.667, 4787.109, 626371.0, 0.683, 8, 0.0, 0.0, 0.0), 0.3, 0.0),
}

# Shares with PAI's mean of 0.683, median of a half and largest of 8; between those they are chosen.
_PAI_SIZES = sizes.of({250: 0.3196, 500: 0.34, 1000: 0.30, 2000: 0.025, 4000: 0.01, 8000: 0.0054})


def named(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise SpecError(f"there is no preset `{name}`", hint=nearest(name, PRESETS))
    return PRESETS[name]


@lru_cache(maxsize=16)
def mix(name: str) -> JobMix:
    """Sizes and durations of a preset."""
    preset = named(name)
    known = preset.published
    times = durations.fit(
        round(known.median_run_s * SECOND_MS),
        round(known.mean_run_s * SECOND_MS),
        round(known.longest_run_s * SECOND_MS),
    )
    return JobMix(_sizes(name, preset), times, preset.coupling)


def _sizes(name: str, preset: Preset) -> JobSizes:
    known = preset.published
    if name == "pai":
        return _PAI_SIZES
    return sizes.halving(preset.ones, known.mean_gpus, known.largest_gpus)
