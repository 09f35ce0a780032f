"""The policy that a journal was run under: read back, or refused with words."""

from collections.abc import Mapping

import msgspec

from tidemill.model import decoding, plugins
from tidemill.model.errors import JournalError
from tidemill.model.policy import Policy

POLICY = "policy"
PLUGINS = "plugins"


def facts(policy: Policy) -> dict[str, str]:
    """What is kept of a policy: all of it, and the plug-ins that were there, if any."""
    kept = {POLICY: msgspec.json.encode(policy).decode()}
    return kept | ({PLUGINS: plugins.named()} if plugins.LOADED else {})


def of(kept: Mapping[str, str], where: str) -> Policy:
    """The policy among the facts of a journal; the default one where none was kept."""
    text = kept.get(POLICY)
    if not text:
        return Policy()
    try:
        return msgspec.json.decode(text, type=Policy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise JournalError(
            f"`{where}` was run under a policy that this Tidemill cannot read:"
            f" {decoding.in_words(error, text, Policy)}",
            hint=f"use the newer Tidemill, or install what it was run with: {_plugins(kept)}; if"
            " there is none, export the journal to .jsonl, correct `policy` in the first line, and"
            " import that",
        ) from error


def _plugins(kept: Mapping[str, str]) -> str:
    """The plug-ins that a journal was run with, in words."""
    had = kept.get(PLUGINS) or "no plug-in that it names"
    return f"{had} (installed here: {plugins.named() or 'none'})"
