"""The parts of the documentation that are made from the code.

``python -m tests.docs.made`` writes them into their pages; a test compares them. So a new event,
option or policy field cannot go without its line in the reference.
"""

import ast
import inspect
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
from typer.main import get_command

from tests.docs import pages
from tidemill.cli.main import app
from tidemill.cli.options import JournalGroup
from tidemill.explain.decision import answers as decision
from tidemill.ledger import document, schema
from tidemill.ledger.buckets import ABOUT, NOT_PRODUCED
from tidemill.live.track import records as track_records
from tidemill.model import (
    events,
    node_rules,
    orders,
    placements,
    policy,
    reasons,
    rows,
    states,
    topology,
)
from tidemill.model.measures import DAY_MS, FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.probe import against_catalogue, predicted
from tidemill.probe import card as cards
from tidemill.provisioning import life
from tidemill.units.catalogue.book import Catalogue

ROWS = (
    rows.Contract,
    rows.LaterPrice,
    rows.Template,
    rows.Node,
    rows.Queue,
    rows.Share,
    rows.Job,
    rows.Shape,
    rows.Role,
    node_rules.LabelCondition,
    topology.Topology,
    topology.Tier,
    topology.Bond,
    topology.Parallelism,
    rows.Checkpointing,
    rows.Efficiency,
    rows.Demand,
    rows.Piece,
)
DECISION = (
    decision.Decision,
    decision.Watch,
    decision.Filtering,
    decision.Filter,
    decision.Ranking,
    decision.ScoredCandidate,
    decision.Term,
    decision.Bind,
    decision.NodeSeat,
    decision.Freed,
    decision.Reserved,
    decision.Tried,
)
DOCUMENT = (
    document.LedgerDocument,
    document.Period,
    document.Totals,
    document.BucketLine,
    document.Unknown,
    document.GoodputPart,
    document.UtilisationPart,
    document.Ratio,
    document.Breakdown,
    document.BreakdownRow,
    document.Cell,
    document.LeakPart,
    document.EditPart,
    document.FixPart,
    document.FreePart,
    document.FreeRow,
    schema.LendingPart,
    schema.Loan,
    schema.IdleFloor,
    schema.WaitsPart,
    schema.WaitRow,
    schema.SpreadPart,
    schema.TopJobPart,
    schema.AlarmPart,
    schema.RolledUpPart,
)
COMMON = ("v", "job", "run", "rank", "seq", "at_us")
"""Fields of records of every type, but that steps have a stretch of time instead of a moment."""
WORDS = (
    states.NodeState,
    states.JobClass,
    states.Terms,
    states.Confidence,
    events.Why,
    reasons.Cause,
)


def write() -> None:
    """Bring every page up to date."""
    for page, parts in PARTS.items():
        path = pages.ROOT / page
        text = path.read_text(encoding="utf-8")
        made = {name: make() for name, make in parts.items()}
        path.write_text(pages.with_made(text, made), encoding="utf-8")


def cli_part() -> str:
    """Every command with its arguments, options and examples."""
    return "".join(_command(path, command) for path, command in commands() if not command.hidden)


def commands() -> list[tuple[str, Any]]:
    """Every command by the words that call it."""
    return list(walk("tidemill", get_command(app)))


def events_part() -> str:
    """Two tables: what was seen, and what was asked."""
    seen = _event_table("What the world told us", get_args(events.Seen))
    return seen + _event_table("What we decided and sent", get_args(events.Action))


def rows_part() -> str:
    """One table a row."""
    return "".join(_row_section(kind) for kind in ROWS)


def document_part() -> str:
    """One table a part of the ledger document."""
    return "".join(_row_section(kind, is_read=True) for kind in DOCUMENT)


def decision_part() -> str:
    """One table a part of a decision."""
    return "".join(_row_section(kind, is_read=True) for kind in DECISION)


def buckets_part() -> str:
    """Every bucket, from paid to useful."""
    lines = [
        _line(
            f"`{about.key}`", about.title, f"`{about.group.name.lower()}`",
            about.owner.name.lower(), "—" if b in NOT_PRODUCED else str(about.confidence),
        )
        for b, about in ABOUT.items()
    ]  # fmt: skip
    return _table(("key", "title", "group", "owner", "usually known as"), lines)


def track_part() -> str:
    """One table per type of record, of the fields that are its own."""
    return "".join(_record_section(kind) for kind in track_records.KINDS)


def track_common_part() -> str:
    """The fields that every record has."""
    kind = track_records.RestoredRecord
    return _record_table(kind, [f for f in msgspec.structs.fields(kind) if f.name in COMMON])


def words_part() -> str:
    """The values of every closed set of words."""
    lines = [_line(kind.__name__, _values(kind), _first_line(kind)) for kind in WORDS]
    return _table(("set", "values", "meaning"), lines)


def policy_part() -> str:
    """Every choice of a policy."""
    words = _field_words(policy.__file__, "Policy")
    lines = [
        _line(
            f"`{field.name.removesuffix('_ms')}`",
            f"`{field.name}`",
            _default(field.name, field.default),
            words[field.name],
        )
        for field in msgspec.structs.fields(policy.Policy)
    ]
    return _table(("in a spec file", "in JSON and Python", "default", "what it says"), lines)


def life_part() -> str:
    """The life of a node as a diagram."""
    return f"```mermaid\n{life.diagram()}\n```\n"


def pairs_part() -> str:
    """Every pair of tenants of the H200 card: measured beside predicted."""
    card = cards.read(pages.ROOT / "examples" / "cards" / "h200-2026-11.json")
    lines = [
        _line(row.mode, row.tenant, row.beside, f"{row.keeps:.1%}", f"{row.predicted_keeps:.1%}",
              f"{row.error:+.0%}", f"{row.p99_ms:.2f}", f"{row.predicted_p99_ms:.2f}",
              f"{row.p99_error:+.0%}", "" if row.is_held_out else "yes")
        for row in predicted.compared(card)
    ]  # fmt: skip
    head = ("mode", "tenant", "beside", "keeps", "predicted", "error", "p99 ms", "predicted",
            "error", "used")  # fmt: skip
    return _table(head, lines)


def plugin_part(name: str) -> str:
    """An example plug-in, as its file stands."""
    text = (pages.ROOT / "examples" / "plugins" / f"{name}.py").read_text(encoding="utf-8")
    return f"```python\n{text}```\n"


def job_facts_part() -> str:
    """What an order may read of a job: every attribute, its type and what it is."""
    lines = [
        _line(f"`{name}`", f"`{made.fget.__annotations__['return'].__name__}`", str(made.__doc__))
        for name, made in vars(orders.JobFacts).items()
        if isinstance(made, property)
    ]
    return _table(("attribute", "type", "what it is"), [line.replace("``", "`") for line in lines])


def free_node_part() -> str:
    """What a score may read of a node: every attribute and its type."""
    words = _field_words(placements.__file__, "FreeNode")
    kinds = placements.FreeNode.__annotations__
    lines = [
        _line(f"`{name}`", f"`{kind.__name__ if type(kind) is type else kind}`", words[name])
        for name, kind in kinds.items()
    ]
    return _table(("attribute", "type", "what it is"), lines)


def standing_part() -> str:
    """The H200 card beside the catalogue."""
    card = cards.read(pages.ROOT / "examples" / "cards" / "h200-2026-11.json")
    found = against_catalogue.standings(card, against_catalogue.part_of(card, Catalogue()))
    lines = [
        _line(s.figure.words, f"{s.figure.value:,.4g} {s.figure.unit}",
              "—" if s.listed is None else f"{s.listed:,.4g}",
              "—" if s.ratio is None else f"{s.ratio:.1%}")
        for s in found
    ]  # fmt: skip
    return _table(("figure", "measured", "catalogue", "reached"), lines)


Make = Callable[[], str]
PARTS: dict[str, dict[str, Make]] = {
    "docs/reference/cli.md": {"cli": cli_part},
    "docs/reference/events.md": {"events": events_part, "words": words_part, "rows": rows_part},
    "docs/reference/ledger-json.md": {"document": document_part, "buckets": buckets_part},
    "docs/reference/decision-json.md": {"decision": decision_part},
    "docs/reference/policy.md": {"policy": policy_part},
    "docs/reference/track.md": {"common": track_common_part, "records": track_part},
    "docs/concepts/provisioning.md": {"life": life_part},
    "docs/concepts/sharing-a-device.md": {"pairs": pairs_part},
    "docs/guides/probe-a-gpu.md": {"standing": standing_part},
    "docs/guides/extend.md": {
        name: partial(plugin_part, name)
        for name in ("widest_first", "lean_cpu", "minimum_commitment", "idle_notebooks")
    }
    | {"job_facts": job_facts_part, "free_node": free_node_part},
}


# The command line -----------------------------------------------------------------------------


def walk(path: str, command: Any) -> Iterable[tuple[str, Any]]:
    """A command and all that are below it, by the words that call them."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(f"{path} {name}", inner)


def _command(path: str, command: Any) -> str:
    depth = "#" * min(4, 2 + path.count(" "))
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    parts = [f"{depth} `{path}`\n", f"{_unmarked(command.help or '')}\n"]
    if arguments or isinstance(command, JournalGroup):
        lines = [_line(f"`{_metavar(p)}`", _fallback(p), p.help or "") for p in arguments]
        if isinstance(command, JournalGroup):  # it takes a path where the others name a command
            lines.append(_line("`JOURNAL`", "", "The journal, instead of -j."))
        parts.append(_table(("argument", "default", "meaning"), lines))
    if options:
        lines = [_line(_names(p), _value(p), _fallback(p), _meaning(p)) for p in options]
        parts.append(_table(("option", "value", "default", "meaning"), lines))
    examples = [line.strip() for line in (command.epilog or "").splitlines() if "$ " in line]
    if examples:
        parts.append("```text\n" + "\n".join(examples) + "\n```\n")
    return "\n".join(parts) + "\n"


def _metavar(param: Any) -> str:
    return param.metavar or param.name.upper()


def _names(param: Any) -> str:
    return ", ".join(f"`{name}`" for name in param.opts)


def _value(param: Any) -> str:
    if param.is_flag:
        return ""
    if param.metavar:
        return str(param.metavar)
    least, most = param.min, param.max
    if least is not None and most is not None:
        return f"{least:,} to {most:,}"
    return f"{least} or more" if least is not None else "NUMBER" if _is_number(param) else "TEXT"


def _is_number(param: Any) -> bool:
    return isinstance(param.default, int | float) and not isinstance(param.default, bool)


def _fallback(param: Any) -> str:
    default = param.default
    if default is None or default is False or default == "":
        return "required" if param.required else ""
    return f"`{default}`"


def _meaning(param: Any) -> str:
    from_shell = f" Also from `${param.envvar}`." if param.envvar else ""
    return (param.help or "") + from_shell


def _unmarked(text: str) -> str:
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(paragraphs)


# Messages and rows ----------------------------------------------------------------------------


def _event_table(title: str, kinds: tuple[type[Any], ...]) -> str:
    lines = [
        _line(
            f"`{kind.__struct_config__.tag}`",
            ", ".join(_field(field) for field in msgspec.structs.fields(kind)[1:]) or "—",
            " ".join((kind.__doc__ or "").replace("``", "`").split()),
        )
        for kind in kinds
    ]
    return f"### {title}\n\n" + _table(("event", "fields beside `at_ms`", "meaning"), lines) + "\n"


def _values(kind: type[Enum]) -> str:
    """Text is kept as it is, a number with its name."""
    if issubclass(kind, IntEnum):
        return ", ".join(f"{item.value} {item.name.lower()}" for item in kind)
    return ", ".join(f"`{item.value}`" for item in kind if item.value)


def _first_line(kind: type[Enum]) -> str:
    return (kind.__doc__ or "").split("\n", maxsplit=1)[0].replace("``", "`")


def _row_section(kind: type[Any], is_read: bool = False) -> str:
    """The fields of a row; one that is only read has no defaults, but perhaps words of its own."""
    about = " ".join((kind.__doc__ or "").replace("``", "`").split())
    words = _field_words(inspect.getfile(kind), kind.__name__)
    fields = msgspec.structs.fields(kind)
    columns = {
        "field": [f"`{f.name}`" for f in fields],
        "type": [_type(f.type) for f in fields],
        "meaning" if is_read else "default": [
            words.get(f.name, "") if is_read else _row_default(f) for f in fields
        ],
    }
    told = {header: cells for header, cells in columns.items() if any(cells)}
    table = _table(tuple(told), [_line(*row) for row in zip(*told.values(), strict=True)])
    return f"### {kind.__name__}\n\n{about}\n\n{_as_list(kind)}{table}\n"


def _record_section(kind: type[Any]) -> str:
    """A type of record: what it says, and the fields beside those that all have."""
    about = " ".join((kind.__doc__ or "").replace("``", "`").split())
    own = [field for field in msgspec.structs.fields(kind) if field.name not in COMMON]
    return f"### `{kind.__struct_config__.tag}`\n\n{about}\n\n{_record_table(kind, own)}\n"


def _record_table(kind: type[Any], fields: list[msgspec.structs.FieldInfo]) -> str:
    words: dict[str, str] = {}
    for base in kind.__mro__:
        if base.__module__ == track_records.__name__:
            words |= _field_words(inspect.getfile(base), base.__name__)
    lines = [
        _line(
            f"`{f.name}`", _known_type(f.type), "" if f.required else "may be absent", words[f.name]
        )
        for f in fields
    ]
    return _table(("field", "type", "", "meaning"), lines)


def _known_type(annotation: object) -> str:
    """The type of what is there; that it may be absent is said beside."""
    return _type(annotation).removesuffix(" or null")


def _as_list(kind: type[Any]) -> str:
    """How a row looks that is written without the names of its fields."""
    if not kind.__struct_config__.array_like:
        return ""
    fields = ", ".join(kind.__struct_fields__)
    return f"Written as a list, in this order: `[{fields}]`.\n\n"


def _field(field: msgspec.structs.FieldInfo) -> str:
    optional = "" if field.required else "?"
    return f"`{field.name}{optional}`: {_type(field.type)}"


def _row_default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT or isinstance(field.default, msgspec.Struct):
        return "empty"
    return _default(field.name, field.default)


def _default(name: str, value: object) -> str:
    if value == FOREVER_MS:
        return "no end" if name.endswith("_ms") else "no limit"
    if name.endswith("_ms") and isinstance(value, int) and value:
        for unit_ms, unit in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m")):
            if value % unit_ms == 0:
                return f"{value // unit_ms}{unit}"
    if isinstance(value, bool):
        return str(value).lower()
    return "empty" if value in ((), "", msgspec.UNSET) else f"{value}"


def _type(annotation: object) -> str:
    return _type_words(msgspec.inspect.type_info(annotation))


TYPE_WORDS: dict[type[msgspec.inspect.Type], str] = {
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.StrType: "text",
    msgspec.inspect.BoolType: "true or false",
    msgspec.inspect.NoneType: "null",
    msgspec.inspect.DictType: "object of texts",
}


def _type_words(found: msgspec.inspect.Type) -> str:
    if type(found) in TYPE_WORDS:
        return TYPE_WORDS[type(found)]
    match found:
        case msgspec.inspect.EnumType(cls=cls):
            return cls.__name__
        case msgspec.inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
        case msgspec.inspect.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(_type_words(item) for item in types)
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"list of {_type_words(item)}"
        case msgspec.inspect.TupleType(item_types=items):
            return f"({', '.join(_type_words(item) for item in items)})"
    raise AssertionError(f"{found} has no words yet")


def _field_words(file: str, name: str) -> dict[str, str]:
    """The text that stands below each field of a class in its source."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    (body,) = (n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    words: dict[str, str] = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=text)):
                words[key] = " ".join(str(text).replace("``", "`").split())
    return words


# Markdown -------------------------------------------------------------------------------------


def _table(header: tuple[str, ...], lines: list[str]) -> str:
    return "\n".join([_line(*header), "|" + "---|" * len(header), *lines]) + "\n"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    write()
