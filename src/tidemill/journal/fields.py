"""Events as JSON, and back. What is wrong is said with its place, its field and what was found."""

from typing import Any

import msgspec

from tidemill.journal.codec import UNREADABLE
from tidemill.model import decoding
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

LONGEST_BYTES = 64 * 2**20  # of one event; the bodies of a journal have the same bound

_DECODER = msgspec.json.Decoder(Event)
_SHORT = 80  # characters of what was found that are worth repeating


def encode(event: Event) -> bytes:
    """One JSON object on one line."""
    return msgspec.json.encode(event)


def parse(data: bytes | str, place: str) -> dict[str, Any]:
    """The JSON object in a text, whatever its fields are."""
    if len(data) > LONGEST_BYTES:
        raise wrong(place, "", f"it is longer than {LONGEST_BYTES} bytes")
    try:
        fields = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise wrong(place, "", f"it is not JSON: {decoding.broken(error, data)}") from error
    if not isinstance(fields, dict):
        raise wrong(place, "", f"an object was expected; found {_shown(fields)}")
    return fields


def decode(data: bytes | str, place: str) -> Event:
    """The event in a text."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE as error:
        found = parse(data, place)
        if not isinstance(error, msgspec.ValidationError):
            raise wrong(place, "", str(error)) from error
        said = decoding.mismatch(error, Event, found)
        more = f" ({said.hint})" if said.hint else ""
        raise wrong(place, said.field, said.words + more) from error


def to_facts(found: object, place: str) -> dict[str, str]:
    """Small facts, by their keys."""
    try:
        return msgspec.convert(found, dict[str, str])
    except UNREADABLE as error:
        raise wrong(place, "facts", f"expected texts by name; found {_shown(found)}") from error


def expect(place: str, field: str, wanted: object, found: object) -> None:
    """Refuse a field that does not say what it must."""
    if type(found) is not type(wanted) or found != wanted:
        raise wrong(place, field, f"expected {_shown(wanted)}; found {_shown(found)}")


def wrong(place: str, field: str, what: str) -> JournalError:
    """The error for one field of one row."""
    where = f"{place}, field `{field}`" if field else place
    return JournalError(
        f"{where}: {what}", hint="correct that row, or keep what comes before it (`keep_prefix`)"
    )


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = f"`{value}`" if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
