"""``postgresql://user@host/db?journal=NAME``: where a journal is kept, and what may be shown of it.

Everything but ``journal`` is for libpq and means what it means there. A password is taken out
before anything else looks at the address: messages, reports and suggested commands have what is
left, and whoever opens a journal by that is given the password again within this process.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from tidemill.model.errors import SpecError

SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://user@host/database?journal=NAME"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_SECRET_KEYS = ("password", "sslpassword")
_IN_TEXT = re.compile(r"\bpostgres(?:ql)?://\S*")

_secrets: dict[str, dict[str, str]] = {}
"""What was taken out of an address, by what is shown of it."""


class Address(NamedTuple):
    """Where a journal is kept."""

    shown: str
    """For people: as it was given, without passwords."""
    name: str
    """Of the journal."""
    server: str
    """For libpq: the same without the journal."""
    secrets: dict[str, str]
    """Passwords, for libpq only."""

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def is_address(where: str) -> bool:
    """Whether this names a journal in PostgreSQL."""
    return where.partition("://")[0] in SCHEMES and "://" in where


def of(where: str) -> Address:
    """Read an address; one without the name of a journal is refused."""
    shown, secrets = _divided(where)
    secrets = secrets or _secrets.get(shown, {})
    parts = urlsplit(shown)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    names = [value for key, value in pairs if key == "journal"]
    if len(names) != 1:
        found = "no journal" if not names else f"{len(names)} journals"
        raise SpecError(f"`{shown}` names {found}", hint=f"give one, as in {EXAMPLE}")
    if not _NAME.fullmatch(names[0]):
        raise SpecError(
            f"`{names[0][:80]}` cannot be the name of a journal in PostgreSQL",
            hint="up to 40 letters, digits, `_`, `-` and `.`, the first a letter or a digit",
        )
    rest = _query([pair for pair in pairs if pair[0] != "journal"])
    return Address(shown, names[0], _joined(parts._replace(query=rest)), secrets)


def visible(where: str) -> str:
    """What may be shown of whatever names a journal; passwords are remembered, not shown."""
    if not is_address(where):
        return where
    shown, secrets = _divided(where)
    if secrets:
        _secrets[shown] = secrets
    return shown


def without_passwords(words: Sequence[str]) -> list[str]:
    """Words of a command line without the passwords of the addresses in them."""
    return [_IN_TEXT.sub(lambda found: visible(found[0]), word) for word in words]


def _divided(where: str) -> tuple[str, dict[str, str]]:
    """An address without its passwords, and the passwords."""
    secrets: dict[str, str] = {}
    try:
        parts = urlsplit(where)
    except ValueError as error:
        raise SpecError(
            f"an address of PostgreSQL cannot be read: {error}", hint=f"as in {EXAMPLE}"
        ) from error
    user, at, host = parts.netloc.rpartition("@")
    user, colon, password = user.partition(":")
    if colon:
        secrets["password"] = unquote(password)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    secrets |= {key: value for key, value in pairs if key in _SECRET_KEYS}
    if not secrets:
        return where, {}
    query = _query([pair for pair in pairs if pair[0] not in _SECRET_KEYS])
    return _joined(parts._replace(netloc=f"{user}{at}{host}", query=query)), secrets


def _joined(parts: SplitResult) -> str:
    """The address again, with its slashes also where it names no host."""
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{query}"


def _query(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(key)}={quote(value, safe='/,:')}" for key, value in pairs)
