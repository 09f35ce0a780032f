"""Facts that a journal keeps beside its events, as JSON: read back, or refused with words."""

from collections.abc import Iterable, Mapping
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


def by_name(kept: Mapping[str, str], fact: str, where: str) -> dict[str, str]:
    """A fact that is a text by name; empty: it keeps none."""
    return read(kept, fact, dict[str, str], where) or {}


def with_names(
    fact: str, known: Mapping[str, str], names: Iterable[tuple[str, str]], most: int
) -> dict[str, str]:
    """What is kept after these texts too, the last so many; nothing if it is no news."""
    found = {**known, **dict(names)}
    if found == known:
        return {}
    return {fact: msgspec.json.encode(dict([*found.items()][-most:])).decode()}
