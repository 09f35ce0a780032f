"""Facts that a journal keeps beside its events, as JSON: read back, or refused with words."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from tidemill.model import decoding
from tidemill.model.errors import JournalError

Kept = TypeVar("Kept")


def read(kept: Mapping[str, str], fact: str, kind: type[Kept], where: str) -> Kept | None:
    """One of the facts of a journal; None: it keeps none of this name."""
    if fact not in kept:
        return None
    try:
        return msgspec.json.decode(kept[fact], type=kind)
    except msgspec.MsgspecError as error:
        raise JournalError(
            f"`{where}` has a fact `{fact}` that cannot be read:"
            f" {decoding.in_words(error, kept[fact], kind)}",
            hint="its facts are damaged; `tidemill journal verify` looks at the rest",
        ) from error
