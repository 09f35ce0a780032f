"""The files of a fleet as hours of its GPUs, like those that are read from a Prometheus.

A file says of which GPU a sample is, and not of which node: that is told with its path, or is its
name or that of its folder, or there is no other node. Minutes are cut where a job began or ended,
since there are samples of each second, as a rule.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.live.nvidia_smi.tables import SmiFile
from tidemill.live.prometheus.answers import Samples
from tidemill.live.prometheus.labels import DeviceKey
from tidemill.live.prometheus.minutes import GPU_MINUTES, HOUR_MS, HourOfGpus
from tidemill.live.prometheus.reading import NODE_WAITS, PODS, Hour
from tidemill.model.errors import SpecError


class SmiSource(NamedTuple):
    """A file, and the node that it is of."""

    node: str
    file: SmiFile


def sources(told: Sequence[str], zone: str, nodes: Sequence[str]) -> list[SmiSource]:
    """Files as somebody named them: ``PATH`` or ``NODE=PATH``, a file or a folder of such files."""
    found = list[SmiSource]()
    for text in told:
        node, path = _named(text)
        if node and node not in nodes:
            raise SpecError(
                f"`{text}` is to be of node `{node}`; the history has {_some(nodes)}",
                hint="give the name that the history has for it: NODE=FILE",
            )
        paths = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        if not paths or not path.exists():
            raise SpecError(
                f"`{path}` " + ("holds no file" if path.exists() else "does not exist"),
                hint="give a file that nvidia-smi wrote, or a folder of such files",
            )
        found += [SmiSource(node or _node_of(one, nodes), SmiFile(one, zone)) for one in paths]
    return found


def read(
    files: Sequence[SmiSource], cuts: Mapping[str, Sequence[int]], start_ms: int, end_ms: int
) -> Iterator[Hour]:
    """The hours that touch a stretch of time; ``cuts``: where minutes of a node are cut."""
    known = dict[tuple[str, int], tuple[str, str]]()
    every = heapq.merge(*(_of(one) for one in files), key=lambda part: part[0])
    for hour_ms, parts in groupby(every, key=lambda part: part[0]):
        if hour_ms + HOUR_MS <= start_ms:
            for _ in parts:
                pass
            continue
        if hour_ms >= end_ms:
            return
        yield _hour(hour_ms, [(one, rows) for _, one, rows in parts], cuts, known)


def cuts_of(attempts: pl.DataFrame, ahead_ms: int) -> dict[str, list[int]]:
    """When something began or ended on each node, by the clock of the devices; in order."""
    none = pl.lit(None, pl.List(pl.String))
    nodes = pl.col("nodes") if "nodes" in attempts.columns else none.alias("nodes")
    ran = attempts.select(nodes, "start_ms", "end_ms").explode("nodes")
    edges = ran.unpivot(["start_ms", "end_ms"], index="nodes", value_name="at")
    edges = edges.drop_nulls(["nodes", "at"]).select("nodes", "at").unique().sort("nodes", "at")
    return {
        str(node): (rows["at"] + ahead_ms).to_list()
        for (node,), rows in edges.group_by("nodes", maintain_order=True)
    }


def _of(one: SmiSource) -> Iterator[tuple[int, SmiSource, pl.DataFrame]]:
    for hour_ms, rows in one.file.hours():
        yield hour_ms, one, rows


def _hour(
    hour_ms: int,
    parts: Sequence[tuple[SmiSource, pl.DataFrame]],
    cuts: Mapping[str, Sequence[int]],
    known: dict[tuple[str, int], tuple[str, str]],
) -> Hour:
    """``known``: UUID and model of a GPU by its number, which ``dmon`` does not tell."""
    by_node = dict[str, HourOfGpus]()
    for one, rows in parts:
        named = rows.filter((pl.col("uuid") != "") & (pl.col("minor") >= 0))
        named = named.select("minor", "uuid", "name").unique(keep="last", maintain_order=True)
        known |= {(one.node, minor): (uuid, model) for minor, uuid, model in named.iter_rows()}
    for one, rows in parts:
        edges = cuts.get(one.node, ())
        inside = edges[bisect_left(edges, hour_ms) : bisect_left(edges, hour_ms + HOUR_MS)]
        whole = by_node.setdefault(one.node, HourOfGpus(hour_ms, {}, inside))
        _add(whole, one, rows, known)
    frames = [pl.DataFrame(schema=GPU_MINUTES), *(whole.frame() for whole in by_node.values())]
    samples, dropped, doubled = (
        sum(getattr(whole, name) for whole in by_node.values())
        for name in ("samples", "dropped", "doubled")
    )
    pods, waits = pl.DataFrame(schema=PODS), pl.DataFrame(schema=NODE_WAITS)
    return Hour(hour_ms, pl.concat(frames), pods, waits, samples, dropped, doubled)


def _add(
    whole: HourOfGpus,
    one: SmiSource,
    rows: pl.DataFrame,
    known: Mapping[tuple[str, int], tuple[str, str]],
) -> None:
    """The samples of a file; each moment of a GPU counts once."""
    ordered = rows.unique(["minor", "uuid", "at_ms"], keep="first", maintain_order=True)
    ordered = ordered.sort("minor", "uuid", "at_ms", maintain_order=True)
    for name, column in one.file.form.metrics.items():
        told = ordered.filter(pl.col(name).is_not_null())
        devices = told.group_by("minor", "uuid", maintain_order=True).agg(
            pl.len(), model=pl.col("name").first()
        )
        keys = list[DeviceKey]()
        for minor, uuid, _, model in devices.iter_rows():
            card = (uuid, model) if uuid else known.get((one.node, minor), ("", model))
            keys.append(DeviceKey(one.node, card[0], minor, "", "", "", "", "", card[1]))
        counts = devices["len"].cast(pl.Int64).to_numpy()
        values = told[name].to_numpy().astype(np.float64)
        read = Samples(counts, told["at_ms"].to_numpy(), values)
        whole.add_samples(column.metric(name), keys, read, whole.start_ms)


def _named(text: str) -> tuple[str, Path]:
    """A path, and the node that was said of it."""
    node, sign, path = text.partition("=")
    if sign and not Path(text).exists():
        return node, Path(path).expanduser()
    return "", Path(text).expanduser()


def _node_of(path: Path, nodes: Sequence[str]) -> str:
    """The node of a file, by its name, by that of its folder, or because there is no other."""
    first = path.name.partition(".")[0]
    for name in (path.name, path.stem, first, path.parent.name):
        if name in nodes:
            return name
    if len(nodes) == 1:
        return nodes[0]
    raise SpecError(
        f"nobody says of which node `{path}` is; the history has {_some(nodes)}",
        hint="say it: NODE=FILE; or call the file, or its folder, as the node: NODE.csv",
    )


def _some(nodes: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in nodes[:5])
    return f"{shown}{' …' if len(nodes) > 5 else ''}" if nodes else "no names of nodes"
