"""The policy that a journal was run under: read back, or refused with words."""

from collections.abc import Mapping

import msgspec

from tidemill.model.errors import JournalError
from tidemill.model.policy import Policy

POLICY = "policy"


def written(policy: Policy) -> str:
    """A policy as the fact that is kept of it."""
    return msgspec.json.encode(policy).decode()


def of(facts: Mapping[str, str], where: str) -> Policy:
    """The policy among the facts of a journal; the default one where none was kept."""
    text = facts.get(POLICY)
    if not text:
        return Policy()
    try:
        return msgspec.json.decode(text, type=Policy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise JournalError(
            f"`{where}` was run under a policy that this Tidemill cannot read: {error}",
            hint="use the newer Tidemill or install the plug-in that it was run with; if there is"
            " none, export the journal to .jsonl, correct `policy` in the first line, and import"
            " that",
        ) from error
