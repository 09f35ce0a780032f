"""Commands that an output suggests, made so that they can be run as they are printed.

Below the command line nobody knows where a journal is kept; what is suggested there reads
``tidemill fleet``. Here the journal, and the moment where one was asked for, are written in.
"""

import html
import re
import shlex

import msgspec

_AT_A_MOMENT = ("why", "decision", "pending", "fit", "fleet", "defrag")
_COMMAND = re.compile(
    rf"\btidemill (ledger(?! diff)|doctor|{'|'.join(_AT_A_MOMENT)})\b([^`\"<\n]*)"
)
"""A command up to the end of its code: a backtick, a quote or a tag of HTML."""


def located(text: str, journal: str, at: str | None = None) -> str:
    """The text, its commands with their journal; those that have one already stay as they are."""
    return _COMMAND.sub(lambda found: _with(found, _where(found[1], journal, at)), text)


def located_json(data: bytes, journal: str, at: str | None = None) -> bytes:
    """The same for every text of a JSON document, but for ``shown_by``: those commands have both.

    (They are whole values, not parts of a sentence: a name in them may hold any character.)
    """
    if b"tidemill " not in data:
        return data

    def walk(value: object) -> object:
        match value:
            case str():
                return located(value, journal, at)
            case list():
                return [walk(item) for item in value]
            case dict():
                return {k: v if k == "shown_by" else walk(v) for k, v in value.items()}
        return value

    return msgspec.json.encode(walk(msgspec.json.decode(data)))


def located_page(page: str, journal: str, at: str | None = None) -> str:
    """The same for HTML."""
    return _COMMAND.sub(
        lambda found: _with(found, html.escape(_where(found[1], journal, at))), page
    )


def _with(found: re.Match[str], where: str) -> str:
    return found[0] if " -j " in found[2] else found[0] + where


def _where(command: str, journal: str, at: str | None) -> str:
    moment = f" --at {shlex.quote(at)}" if at and command in _AT_A_MOMENT else ""
    return f" -j {shlex.quote(journal)}{moment}"
