"""Nodes that jobs call otherwise than the table of nodes does: with a domain, or in capitals.

`g1.hpc.local` or `G1` of a job is the listed `g1` where that can only be one machine: one listed
node has this name without a domain, and no two domains are told. Else it is a node of its own.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from tidemill.live.history.rows import SeenNode
from tidemill.live.prometheus.labels import host_of


class _Alike(NamedTuple):
    """Names that are one but for their domains and capitals."""

    of_jobs: list[str]
    listed: list[str]
    domains: set[str]


def as_listed(attempts: pl.DataFrame, listed: Iterable[SeenNode]) -> tuple[pl.DataFrame, list[str]]:
    """Attempts with their nodes as the table of nodes calls them; what that changed, in words."""
    known = {node.name for node in listed}
    if "nodes" not in attempts.columns or not known:
        return attempts, []
    told = attempts["nodes"].explode().drop_nulls().unique().sort().to_list()
    unlisted = [name for name in told if name not in known]
    alike = _alike(unlisted, sorted(known))
    names = {
        name: some.listed[0]
        for some in alike
        if len(some.listed) == 1 and len(some.domains) <= 1
        for name in some.of_jobs
    }
    notes = _said(names, [some for some in alike if some.listed and some.of_jobs[0] not in names])
    if not names:
        return attempts, notes
    is_other = pl.col("nodes").list.eval(pl.element().is_in([*names])).list.any()
    mine = pl.col("nodes").list.eval(pl.element().replace(names)).list.unique(maintain_order=True)
    return attempts.with_columns(nodes=pl.when(is_other).then(mine).otherwise("nodes")), notes


def _alike(of_jobs: Sequence[str], listed: Sequence[str]) -> list[_Alike]:
    """Nodes of jobs that are not listed, with those that are called so but for domain and case."""
    found = dict[str, _Alike]()
    for name in of_jobs:
        found.setdefault(_host(name), _Alike([], [], set())).of_jobs.append(name)
    for name in listed:
        if (some := found.get(_host(name))) is not None:
            some.listed.append(name)
    for host, some in found.items():
        names = (name.lower() for name in (*some.of_jobs, *some.listed))
        some.domains.update(name.removeprefix(host) for name in names if name != host)
    return [*found.values()]


def _host(name: str) -> str:
    return host_of(name.lower())


def _said(names: dict[str, str], unsure: Sequence[_Alike]) -> list[str]:
    notes = list[str]()
    if names:
        shown = ", ".join(f"`{name}` as `{listed}`" for name, listed in [*names.items()][:5])
        more = " …" if len(names) > 5 else ""
        notes.append(
            "nodes of jobs that differ from listed ones by their domain or capitals alone are taken"
            f" for them: {shown}{more}"
        )
    if unsure:
        pairs = (f"`{one.of_jobs[0]}` (`{one.listed[0]}` is listed)" for one in unsure[:5])
        more = " …" if len(unsure) > 5 else ""
        notes.append(
            "nodes of jobs that are called nearly as listed ones, where that may be several"
            f" machines, are nodes of their own: {', '.join(pairs)}{more}"
        )
    return notes
