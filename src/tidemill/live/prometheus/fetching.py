"""From the address of a Prometheus, or a folder of its hours, to the hours of a stretch of time."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tidemill.live.prometheus.client import Client
from tidemill.live.prometheus.minutes import HOUR_MS, MINUTE_MS
from tidemill.live.prometheus.reading import Hour, PrometheusReader, ServerMetrics, hours
from tidemill.live.prometheus.store import HourFolder
from tidemill.model.errors import SpecError

LATE_MS = 5 * MINUTE_MS
"""An hour counts as whole so long after its end: scrapes and remote writes come late."""

ANSWER_S = 20.0
"""Of one answer about an hour or less, however slowly it comes."""
ANSWERS_S = 60.0
"""Of all answers about a few minutes; more where more time is asked for."""
_TIMES_FASTER = 60
"""So much faster than it passed a longer time must be read, or a journal never catches up."""

Progress = Callable[[int, int], None]


def answers_s(start_ms: int, end_ms: int) -> float:
    """How long all answers about a stretch of time may take together."""
    return max(ANSWERS_S, (end_ms - start_ms) / 1000 / _TIMES_FASTER)


def names_of(client: Client, start_ms: int, end_ms: int) -> ServerMetrics:
    """The metrics of GPUs and of serving engines that a server has; none is an error."""
    names = PrometheusReader(client).names(start_ms, end_ms)
    if not any(names):
        raise SpecError(
            f"asked {client.url} for metrics of GPUs and services in this time; it has none that"
            " are known",
            hint="`tidemill prometheus fields` lists them; install dcgm-exporter, or look at"
            " another time",
        )
    return names


def read(
    client: Client, start_ms: int, end_ms: int, on_progress: Progress | None = None
) -> Iterator[Hour]:
    """The hours that touch a stretch of time, straight from the server."""
    names, reader = names_of(client, start_ms, end_ms), PrometheusReader(client)
    wanted = hours(start_ms, end_ms)
    for number, start in enumerate(wanted):
        yield reader.hour(start, names)
        if on_progress is not None:
            on_progress(number + 1, len(wanted))


def read_minutes(client: Client, start_ms: int, end_ms: int) -> Iterator[Hour]:
    """No more than the whole minutes of a stretch of time, hour by hour."""
    names, reader = names_of(client, start_ms, end_ms), PrometheusReader(client)
    for hour in hours(start_ms, end_ms):
        yield reader.part(max(start_ms, hour), min(end_ms, hour + HOUR_MS), names)


def fetch(
    client: Client,
    folder: HourFolder,
    start_ms: int,
    end_ms: int,
    on_progress: Progress | None = None,
) -> int:
    """Bring the hours that a folder does not have yet into it; how many those were."""
    ahead_ms = client.clock_ahead_ms()
    now_ms = round(time.time() * 1000) + ahead_ms
    names, reader = names_of(client, start_ms, end_ms), PrometheusReader(client)
    folder.begin(client.url, ahead_ms)
    wanted = [start for start in hours(start_ms, min(end_ms, now_ms)) if not folder.has(start)]
    for number, start in enumerate(wanted):
        folder.keep(reader.hour(start, names), is_whole=start + HOUR_MS + LATE_MS <= now_ms)
        if on_progress is not None:
            on_progress(number + 1, len(wanted))
    return len(wanted)


def is_address(told: str) -> bool:
    """Whether this is the address of a server, and not the path of a folder."""
    return "://" in told


def folder_of(told: str) -> HourFolder:
    """The folder that was given in place of an address."""
    return HourFolder.to_read(Path(told))
