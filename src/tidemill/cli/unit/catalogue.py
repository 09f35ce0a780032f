"""The catalogue that unit commands read: what is shipped, and the rows of a user's file over it.

A file is TOML with ``[[part]]`` and ``[[box]]`` rows in the words of the catalogue. A row whose
``key`` is shipped changes only the fields it names; any other row is a new part or box.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from tidemill.model.errors import SpecError

if TYPE_CHECKING:
    from tidemill.twin.spec.errors import SpecPlace
    from tidemill.units.catalogue.book import Catalogue

File = Annotated[
    str | None,
    typer.Option(
        "--catalogue", envvar="TIDEMILL_CATALOGUE", metavar="FILE",
        help="A TOML file that extends the catalogue: GPU models as [[part]], server types as "
        "[[box]].",
    ),
]  # fmt: skip

MOST_BYTES = 1 << 20
MOST_ROWS = 1_000
MOST_COUNTED = 10_000_000

Row = TypeVar("Row", bound=msgspec.Struct)


def catalogue(file: str | None) -> "Catalogue":
    """What is shipped, with the rows of the file over it."""
    from tidemill.units.catalogue.book import Catalogue

    return Catalogue() if file is None else read(_text(file), file)


def read(text: str, source: str) -> "Catalogue":
    """The catalogue with the rows of a TOML text."""
    from tidemill.model.decoding import nearest, toml
    from tidemill.units.catalogue.book import Catalogue
    from tidemill.units.catalogue.rows import Box, Part

    hint = "rows are [[part]] or [[box]], text needs quotes; see https://toml.io"
    raw = toml(text, source, hint)
    for table in raw:
        if table not in ("part", "box"):
            raise SpecError(
                f"`{source}`: unknown table `{table[:100]}`", hint=nearest(table, ("part", "box"))
            )
    shipped = Catalogue()
    made = Catalogue(
        parts=_rows(raw, "part", Part, shipped.parts, source),
        boxes=_rows(raw, "box", Box, shipped.boxes, source),
    )
    for box in made.boxes.values():
        made.part_of(box)
    return made


def counted(text: str) -> tuple[str, int | None]:
    """``p5:8`` as a name and a count; None where no count is given."""
    name, _, count = text.rpartition(":")
    if not name:
        return text, None
    if not (count.isascii() and count.isdecimal()) or not 1 <= int(count[:10]) <= MOST_COUNTED:
        raise SpecError(f"`{text[:100]}`: `{count[:40]}` is no count", hint=f"write {name[:60]}:8")
    return name, int(count)


def _text(file: str) -> str:
    with Path(file).open("rb") as opened:
        found = opened.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise SpecError(
            f"`{file}` is larger than {MOST_BYTES:,} bytes", hint="give a file of [[part]] rows"
        )
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"`{file}` is not text", hint="TOML is written in UTF-8") from error


def _rows(
    raw: dict[str, Any], table: str, kind: type[Row], shipped: dict[str, Row], source: str
) -> list[Row]:
    from tidemill.twin.spec.errors import SpecPlace

    found = raw.get(table, [])
    if not isinstance(found, list) or len(found) > MOST_ROWS:
        count = f"{len(found):,} rows" if isinstance(found, list) else "a single table"
        SpecPlace(source, table).refuse(
            "", f"expected at most {MOST_ROWS:,} rows; found {count}",
            hint=f"write [[{table}]] with two brackets before each row",
        )  # fmt: skip
    return [_row(row, kind, shipped, _place(source, table, i, row)) for i, row in enumerate(found)]


def _place(source: str, table: str, i: int, raw: object) -> "SpecPlace":
    from tidemill.twin.spec.errors import SpecPlace

    key = raw.get("key", "") if isinstance(raw, dict) else ""
    return SpecPlace(source, table, i + 1, key[:100] if isinstance(key, str) else "")


def _row(raw: object, kind: type[Row], shipped: dict[str, Row], place: "SpecPlace") -> Row:
    from tidemill.model.decoding import shown
    from tidemill.twin.spec.errors import explain

    if not isinstance(raw, dict):
        place.refuse("", f"expected a table; found {shown(raw)}", hint="write key = value lines")
    key = raw.get("key")
    known = shipped.get(key) if isinstance(key, str) else None
    whole = raw if known is None else {**msgspec.to_builtins(known), **raw}
    try:
        return msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        explain(place, error, kind, whole)
