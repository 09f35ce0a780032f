"""Series as exporters give them, in OpenMetrics' format: labels, values, times."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

BEGIN_S = 1_790_000_000 // 3600 * 3600
"""The hour in which stories begin; in the past, so that the server takes it for history."""


class Recorded(NamedTuple):
    """One series: a metric with labels, and its samples."""

    metric: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float | str]]
    """Seconds since the story began, and the value."""
    is_counter: bool = False


def steady(value: float, start_s: int, end_s: int, every_s: int = 30) -> list[tuple[float, float]]:
    """The same value at every scrape."""
    return [(float(at), value) for at in range(start_s, end_s, every_s)]


def dcgm(node: str, gpu: int, **more: str) -> dict[str, str]:
    """The labels of dcgm-exporter for one GPU."""
    return {
        "Hostname": node, "gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}", "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3", "instance": f"{node}:9400", "job": "dcgm", **more,
    }  # fmt: skip


def lines(series: Sequence[Recorded]) -> Iterator[str]:
    """The text that ``promtool`` takes: by metric, each with its type."""
    for metric in sorted({one.metric for one in series}):
        some = [one for one in series if one.metric == metric]
        is_counter = some[0].is_counter
        yield f"# TYPE {metric.removesuffix('_total')} {'counter' if is_counter else 'gauge'}"
        for one in some:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(one.labels.items()))
            for at, value in one.samples:
                yield f"{one.metric}{{{labels}}} {value} {BEGIN_S + at:.3f}"
