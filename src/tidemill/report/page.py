"""The page: puts the parts together and writes them into one file that needs nothing else.

Names of jobs, teams and contracts come from strangers. Everything that is written is escaped, the
style sheet and the one script, which sorts tables, are allowed by their hashes, and the policy in
the page's head forbids every other script, frames, forms and every request.
"""

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from tidemill import __version__
from tidemill.journal.source import Source
from tidemill.ledger import pricing
from tidemill.ledger.buckets import Stage
from tidemill.ledger.statement import Statement
from tidemill.ledger.unknowns import is_busy_told, is_loss_told, unknowns_of
from tidemill.ledger.waits import UNTOLD
from tidemill.model import names
from tidemill.model.measures import duration_text
from tidemill.report import (
    breakdown,
    efficiency,
    fixes,
    lending,
    lines,
    pending,
    room,
    served,
    stages,
    waits,
)
from tidemill.report.headline import QUESTION, headline
from tidemill.report.timeline import PLOT_HEIGHT, PLOT_WIDTH, timeline
from tidemill.report.waterfall import NARROW, WIDE, waterfall
from tidemill.units import capability

if TYPE_CHECKING:
    from tidemill.explain.answers import Board
    from tidemill.ledger.schema import LendingPart
    from tidemill.scheduling.schedulability import FreeLot

_UNPRINTABLE = re.compile("[\ufffe\uffff]")
"""Control characters and halves of surrogate pairs: no HTML file may hold them."""


def render(  # noqa: PLR0913 - named, and each of them may be left out
    statement: Statement,
    *,
    title: str,
    subtitle: str = "",
    board: "Board | None" = None,
    lots: "tuple[FreeLot, ...]" = (),
    lent: "LendingPart | None" = None,
    now_text: str = "",
    command: str = "",
) -> str:
    """The report of a statement as the text of an HTML file.

    ``now_text`` says when it was made and ``command`` how to make it again; both are the caller's
    to know and are left out when empty. A ``board`` adds what was waiting, ``lots`` what would fit,
    ``lent`` who lent what to whom.
    """
    style, script = _own("page.css"), _own("sort.js")
    return _environment().get_template("page.html").render(
        title=title,
        subtitle=subtitle,
        now_text=now_text,
        command=command,
        version=__version__,
        question=QUESTION,
        style=Markup(style),  # our own file, not input
        style_hash=_hash(style),
        script=Markup(script),  # as above
        script_hash=_hash(script),
        window=_window(statement),
        pending=pending.pending(board, statement.calendar) if board is not None else None,
        room=room.room(statement, lots) if lots else None,
        lending=lending.lending(lent) if lent is not None else None,
        **_parts(statement),
    )  # fmt: skip


def _parts(statement: Statement) -> dict[str, Any]:
    """What can be said when something was paid; nothing otherwise."""
    account = statement.total()
    if not account.paid_milli_ms:
        return {"headline": None}
    return {
        "headline": headline(
            account,
            statement.end_ms - statement.start_ms,
            lines.basis(statement, account),
            pricing.sentence(statement),
            is_price_assumed=pricing.is_assumed(statement),
        ),
        "wide": waterfall(account, WIDE),
        "narrow": waterfall(account, NARROW),
        "fixes": fixes.cards(statement),
        "lines": lines.lines(statement, account),
        "total": lines.total(account),
        "reference": capability.REFERENCE,
        "is_run": statement.source.is_simulated and statement.source is not Source.SHADOW,
        "unmeasured": len(unknowns_of(statement)),
        "is_hatched": account.of(stages.members(Stage.UNKNOWN)) > 0,
        "known": lines.known(statement, account),
        "utilisations": efficiency.utilisations(account, is_busy_told=is_busy_told(statement)),
        "goodput": efficiency.goodput(account, is_loss_told=is_loss_told(statement)),
        "timeline": timeline(statement, account),
        "plot_width": PLOT_WIDTH,
        "plot_height": PLOT_HEIGHT,
        "alarms": [(statement.world.job_names[j], text) for j, text in statement.alarms.items()],
        "breakdowns": [
            breakdown.breakdown(statement, account, dimension)
            for dimension in breakdown.TITLES
            if dimension != "user" or any(statement.world.job_users)
        ],
        "steps": served.steps(statement),
        "services": served.services(statement),
        "devices": served.devices(statement),
        "jobs": waits.jobs(statement),
        "waits": waits.waits(statement),
        "untold_waits": "" if statement.tells_submissions else UNTOLD,
    }


def _window(statement: Statement) -> dict[str, str]:
    return {
        "start": statement.calendar.text(statement.start_ms),
        "end": statement.calendar.text(statement.end_ms),
        "length": duration_text(statement.end_ms - statement.start_ms),
        "clock": _clock(statement),
    }


def _clock(statement: Statement) -> str:
    """What the times on the page are."""
    begins, zone = statement.calendar
    if begins is None:
        return "times since the start of the journal"
    if begins.tzinfo is None:
        return "dates as the journal has them; nobody said in which zone"
    return f"times in {zone}" if zone else "times with their offset from UTC"


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("tidemill.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.filters["coded"] = coded
    return made


@cache
def _own(name: str) -> str:
    folder = resources.files("tidemill.report") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _printable(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, Markup):
        return _UNPRINTABLE.sub("\ufffd", names.visible(value))
    return value


def coded(text: str) -> Markup:
    """Words with ids in backticks as HTML: every part escaped, the ids in ``<code>``."""
    parts = str(_printable(text)).split("`")
    if len(parts) % 2 == 0:  # a backtick of somebody's own: leave all of them as they are
        return escape("`".join(parts))
    tag = Markup("<code>{}</code>")
    return Markup("").join(tag.format(p) if i % 2 else p for i, p in enumerate(parts))
