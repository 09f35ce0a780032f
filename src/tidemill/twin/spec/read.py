"""From TOML text to the tables of a spec, one row at a time, so that an error knows its row."""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from tidemill.model.decoding import nearest, shown, toml
from tidemill.model.errors import SpecError
from tidemill.model.orders import BY_SHAPE, ORDERS
from tidemill.model.placements import PLACEMENTS
from tidemill.model.policy import Policy
from tidemill.twin.spec import synonyms, words
from tidemill.twin.spec.errors import SpecPlace, explain
from tidemill.twin.spec.tables import (
    ContractTable,
    FaultsTable,
    JobTable,
    Spec,
    TeamTable,
    TierTable,
    TwinTable,
    WorkloadTable,
)

_SINGLE = ("twin", "faults", "policy")
_ROWS = ("contract", "team", "tier", "workload", "job")
MAX_ROWS = 100_000
_TOML = (
    "text needs quotes, tables are [twin] or [[contract]]; see https://toml.io, or start from"
    " `tidemill twin generate`"
)

Row = TypeVar("Row", bound=msgspec.Struct)


def read(text: str, source: str) -> Spec:
    """Every table of the text; whether they agree is not asked here."""
    return of_values(toml(text, source, _TOML), source)


def of_values(told: dict[str, Any], source: str) -> Spec:
    """The same of tables that were written in another form than TOML."""
    raw, notes = _in_our_words(told, source)
    policy = _policy(_table(raw, "policy", source), source)
    return Spec(
        source=source,
        twin=_single(raw, "twin", TwinTable, source),
        contracts=_rows(raw, "contract", ContractTable, source),
        teams=_rows(raw, "team", TeamTable, source),
        workloads=_rows(raw, "workload", WorkloadTable, source),
        jobs=_rows(raw, "job", JobTable, source),
        tiers=_rows(raw, "tier", TierTable, source),
        faults=_single(raw, "faults", FaultsTable, source),
        policy=policy,
        notes=(*notes, *_unused(raw.get("policy", {}), policy, source)),
    )


def _in_our_words(raw: dict[str, Any], source: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Every table under the name we use, every row with our own words, and what was read so."""
    tables: dict[str, Any] = {}
    notes: list[tuple[SpecPlace, str]] = []
    for word, found in raw.items():
        table = synonyms.TABLES.get(word, word)
        if table in tables:
            raise SpecError(
                f"`{source}` has [[{table}]] and [[{word}]], which mean the same",
                hint=f"call all of them [[{table}]]",
            )
        if table != word:
            notes.append((SpecPlace(source, word, 1), f"is read as [[{table}]]"))
        tables[table] = found
    _refuse_unknown(tables, source)
    for table, found in tables.items():
        if isinstance(found, dict) and table in _SINGLE:
            place = SpecPlace(source, table)
            tables[table], said = synonyms.read_as(found, place)
            notes += [(place, note) for note in said]
        elif isinstance(found, list) and len(found) <= MAX_ROWS:
            tables[table] = [_row_in_our_words(source, table, i, row, notes)
                             for i, row in enumerate(found, 1)]  # fmt: skip
    return tables, synonyms.told(iter(notes))


def _row_in_our_words(
    source: str, table: str, i: int, row: object, notes: list[tuple[SpecPlace, str]]
) -> object:
    if not isinstance(row, dict):
        return row
    place = _place(source, table, i, row)
    renamed, said = synonyms.read_as(row, place)
    notes += [(place, note) for note in said]
    return renamed


def _refuse_unknown(raw: dict[str, Any], source: str) -> None:
    for table in raw:
        if table not in _SINGLE and table not in _ROWS:
            known = [*_SINGLE, *_ROWS]
            raise SpecError(f"`{source}`: unknown table `{table}`", hint=nearest(table, known))


def _table(raw: dict[str, Any], table: str, source: str) -> dict[str, Any]:
    found = raw.get(table, {})
    if not isinstance(found, dict):
        SpecPlace(source, table).refuse(
            "", f"expected a table; found {shown(found)}", hint=f"write [{table}] on its own line"
        )
    return found


def _single(raw: dict[str, Any], table: str, kind: type[Row], source: str) -> Row:
    return _row(_table(raw, table, source), kind, SpecPlace(source, table))


def _rows(raw: dict[str, Any], table: str, kind: type[Row], source: str) -> tuple[Row, ...]:
    found = raw.get(table, [])
    if not isinstance(found, list) or len(found) > MAX_ROWS:
        count = f"{len(found):,} rows" if isinstance(found, list) else "a single table"
        SpecPlace(source, table).refuse(
            "",
            f"expected at most {MAX_ROWS:,} rows; found {count}",
            hint=f"write [[{table}]] with two brackets before each row",
        )
    return tuple(_row(row, kind, _place(source, table, i, row)) for i, row in enumerate(found, 1))


def _place(source: str, table: str, row: int, raw: object) -> SpecPlace:
    name = raw.get("name", "") if isinstance(raw, dict) else ""
    return SpecPlace(source, table, row, name[:200] if isinstance(name, str) else "")


def _row(raw: dict[str, Any], kind: type[Row], place: SpecPlace) -> Row:
    try:
        return msgspec.convert(raw, kind, dec_hook=words.read)
    except msgspec.ValidationError as error:
        explain(place, error, kind, raw)


def _policy(raw: dict[str, Any], source: str) -> Policy:
    """The policy's own fields; those in milliseconds are written as durations, without ``_ms``."""
    place = SpecPlace(source, "policy")
    own = {field.encode_name for field in msgspec.structs.fields(Policy)}
    known = {name.removesuffix("_ms") for name in own}
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in known:
            place.refuse("", f"unknown field `{name}`", hint=nearest(name, known))
        if name in own:
            values[name] = value
        else:
            values[f"{name}_ms"] = _lengths(place, name, value)
    for field, rows in (("order", tuple(ORDERS)), ("placement", tuple(PLACEMENTS))):
        given = values.get(field, ())
        for name in given if isinstance(given, list) else [given]:
            if isinstance(name, str) and name not in rows:
                place.refuse_row(field, name, rows, what=field)
    return _row(values, Policy, place)


_BESIDE_REORDER = ("may_preempt", "may_reclaim", "may_move", "may_resize", "backfill")


def _unused(raw: dict[str, Any], policy: Policy, source: str) -> Iterator[str]:
    """What was written, is not off, and has no effect beside the rest of the policy."""
    if not policy.may_reorder:
        return
    place = SpecPlace(source, "policy")
    if policy.order in BY_SHAPE:
        yield f"{place}: `may_reorder` does nothing in the order `{policy.order}`"
        return
    found = [
        f"`{name}`" for name in _BESIDE_REORDER
        if name in raw and getattr(policy, name) not in (False, "none")
    ]  # fmt: skip
    if found:
        *first, last = found
        named = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        yield f"{place}: {named} not used beside `may_reorder`"


def _lengths(place: SpecPlace, name: str, value: object) -> int | list[int]:
    """A duration, or a list of them, in milliseconds."""
    try:
        if isinstance(value, list):
            return [int(words.span(item)) for item in value]
        return int(words.span(value))
    except (TypeError, ValueError) as error:
        place.refuse(name, f"{error}; found {shown(value)}", hint=f"change `{name}` in {place}")
