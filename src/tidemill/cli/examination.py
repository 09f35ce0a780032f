"""What the doctor looks at: the machine's parts, and what a journal does not say."""

import importlib
import platform
import shutil
import sqlite3
import sys
from typing import NamedTuple

import numpy as np

from tidemill import api
from tidemill.cli import screen, sources
from tidemill.journal import completeness, open_journal, policies
from tidemill.journal.replay import rebuild
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.unknowns import unknowns_of
from tidemill.model import paging
from tidemill.model.measures import count_text
from tidemill.model.rows import whole_type
from tidemill.model.states import CONFIDENCES, Confidence, JobClass
from tidemill.model.world import World
from tidemill.units import capability

_PARTS = ("numpy", "llvmlite", "polars", "msgspec", "jinja2", "typer", "rich")


class Finding(NamedTuple):
    """One thing looked at; ``so`` is what follows if it is not as it should be."""

    is_ok: bool
    what: str
    found: str
    so: str = ""
    is_fatal: bool = False


def of_machine() -> list[Finding]:
    """Python, libraries, compiled kernels, database, browser."""
    is_new = sys.version_info >= (3, 11)
    so = "" if is_new else "3.11 is needed"
    python = Finding(is_new, "python", platform.python_version(), so, not is_new)
    database = Finding(True, "sqlite", sqlite3.sqlite_version)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    page = Finding(
        bool(browser),
        "browser",
        browser or "none",
        "" if browser else "open reports on another machine",
    )
    return [python, *(_library(name) for name in _PARTS), _kernels(), database, page]


def of_journal(where: str) -> list[Finding]:
    """What a journal leaves unknown, and which ledger lines suffer."""
    statement = api.read_statement(where)
    with open_journal(where) as journal:
        world = rebuild(journal)
        extent = completeness.of(journal)
        policies.of(journal.facts(), where)
        told = [*sources.look(journal, world, statement)] if world.is_observed else []
    is_whole = not extent.words
    findings = [
        Finding(
            True,
            "journal",
            f"{count_text(world.seq, 'event')}, {count_text(world.job_count, 'job')}",
        ),
        Finding(is_whole, "run that wrote it", extent.state, extent.words),
        *(Finding(*found) for found in told),
    ]
    if not world.is_observed:
        findings += [_efficiency(world), _estimates(world), _checkpoints(world)]
    findings.append(_capability(world))
    missing = unknowns_of(statement)
    if world.is_observed:
        return findings + _without_a_source(missing)
    return findings + [
        Finding(False, f"ledger line `{ABOUT[bucket].title}`", "no source", "unknown, not zero")
        for bucket in missing
    ]


def _without_a_source(missing: dict[int, str]) -> list[Finding]:
    """The ledger lines that nobody tells, together where that has one reason."""
    lines = dict[str, list[str]]()
    for bucket, why in missing.items():
        lines.setdefault(why, []).append(f"`{ABOUT[bucket].title}`")
    return [
        Finding(False, "ledger lines without a source", "; ".join(titles), f"unknown: {why}")
        for why, titles in lines.items()
    ]


def _library(name: str) -> Finding:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        return Finding(False, name, str(error), "install the pinned requirements", True)
    return Finding(True, name, getattr(module, "__version__", "present"))


def _kernels() -> Finding:
    from tidemill.core import progress

    found = progress.run_ms(100, 30, 2)
    is_right = found == 106
    return Finding(is_right, "compiled kernels", f"answer {found} of 106", "", not is_right)


def _share(count: int, total: int, noun: str = "job") -> str:
    return f"{count:,} of {screen.count(total, noun)}"


def _efficiency(world: World) -> Finding:
    unknown = CONFIDENCES.index(Confidence.UNKNOWN)
    total = world.job_count
    count = int((paging.column(world.jobs.confidence, total) == unknown).sum())
    so = "their work is `worked, efficiency unknown`; report step times" if count else ""
    return Finding(not count, "jobs without efficiency (MFU)", _share(count, total), so)


def _estimates(world: World) -> Finding:
    total = world.job_count
    count = int((paging.column(world.jobs.estimate_ms, total) == 0).sum())
    so = "their end is estimated from similar jobs" if count else ""
    return Finding(not count, "jobs without a run-time estimate", _share(count, total), so)


def _checkpoints(world: World) -> Finding:
    training = [s for s, row in enumerate(world.shape_rows) if row.kind is JobClass.TRAINING]
    is_training = np.isin(paging.column(world.jobs.shape, world.job_count), training)
    total = int(is_training.sum())
    count = int((paging.column(world.jobs.interval_ms, world.job_count)[is_training] == 0).sum())
    so = "an interruption loses all of their work" if count else ""
    return Finding(
        not count, "training jobs that never checkpoint", _share(count, total, "training job"), so
    )


def _capability(world: World) -> Finding:
    missing = sorted(kind for kind in world.kinds if capability.gflops(whole_type(kind)) is None)
    so = "different GPU types cannot be added up by capability" if missing else ""
    return Finding(not missing, "GPU types of unknown capability", ", ".join(missing) or "none", so)
