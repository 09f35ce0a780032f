"""Printed words: every text of the program that a person reads, and the house words among them.

Texts are string literals with a space in them, the headings of tables, the rows of the shipped CSV
tables, and the docstrings that are printed: those of commands (``--help``) and of events and
policies (``docs/reference``). What an ``assert`` says and what stands in backticks (names of
fields, jobs and options) is not prose and is left out.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path("src/tidemill")
REFERENCE = ("model/events.py", "model/policy.py")
"""Files whose docstrings of classes and fields become pages of ``docs/reference``."""

HOUSE_WORDS = {
    r"World": "cluster state",
    r"beats?": "scheduling cycle",
    r"heirs?": "preemptor",
    r"seams?": "paid but not schedulable",
    r"slivers?": "under-used whole GPU",
    r"bonds?": "topology constraint",
    r"sittings?": "probe run",
    r"desks?": "scheduler",
    r"stor(?:y|ies)": "run, or simulation",
    r"second readers?": "plan checker",
    r"certificates?": "proof that it can never fit",
    r"boards?": "pending jobs",
    r"(?<!model )(?<!/)cards?(?! of)": "probe result, or GPU",
    r"room elsewhere": "it fits elsewhere",
    r"is to sit|sits? (?:on|in)": "is placed",
    r"waiting for [^;]*accelerators": "GPUs requested",
    r"stations?": "pipeline stages",
    r"spares? by design": "hot spares",
    r"below the roofline": "below the attainable roof",
    r"floors?": "guaranteed quota",
    r"(?<!--)kinds?(?! of| TEXT)": "GPU type",
    r"(?:it|job|replica) asks? for": "requests",
    r"nobody ahead": "no job ahead",
    r"who went without": "jobs that were skipped",
    r"(?:row|cores|GiB|one|day|second) a (?:job|replica|line|node|second|token)": "per",
}
"""Words of ours, as patterns, and what to say instead (shared with the glossary)."""

ALLOWED = {
    (
        "cli/ledger.py",
        "kind",
    ): "the value of `--by` that its help lists, with its meaning beside it",
    ("journal/sqlite/version1.py", "kind"): "a column of a table, in SQL",
    ("live/kubernetes/api/client.py", "certificate"): "what proves the name of a server, in TLS",
    ("live/kubernetes/api/credentials.py", "certificate"): "what proves who asks, in TLS",
    (
        "live/kubernetes/api/kubeconfig.py",
        "certificate",
    ): "as above, and a word of kubeconfig files",
    ("live/prometheus/client.py", "certificate"): "what proves the name of a server, in TLS",
    ("model/whys.py", "floor"): "a value of the journal's format, which old journals have",
    ("twin/spec/template.py", "kind"): "a field of a spec, in TOML",
    ("units/catalogue/boxes.csv", "board"): "a circuit board",
    ("units/catalogue/parts.csv", "boards"): "circuit boards",
}
"""House words that stay, by file, each with the reason."""


COUNTED = (
    "accelerators", "claims", "clusters", "containers", "contracts", "cores", "CPUs", "devices",
    "domains", "events", "gangs", "GPUs", "groups", "instances", "jobs", "nodes", "objects", "pods",
    "queues", "replicas", "requests", "teams",
)  # fmt: skip
"""Nouns that are counted, in the plural."""
ADJECTIVES = "active|different|failed|free|idle|missing|more|other|running|waiting"
_COUNTED = re.compile(rf" (?:(?:{ADJECTIVES}) )?({'|'.join(COUNTED)})\b(?!-)")
COUNTS = ("explain", "cli", "live/kubernetes", "report")
"""Packages in which a number is not put before a plural: it may be 1."""
UNCOUNTED = {"waited", "self.kind"}
"""What stands before a plural and is no number."""


class Found(NamedTuple):
    """A house word in a printed text."""

    path: str
    line: int
    word: str
    say: str
    text: str


def found() -> list[Found]:
    """Every house word in what the program prints."""
    return [
        Found(path, line, match[0], say, text)
        for path, line, text in printed()
        for pattern, say in HOUSE_WORDS.items()
        for match in re.finditer(rf"\b{pattern}\b", _prose(text))
    ]


def counted() -> list[str]:
    """Every plural that stands right after a number, which may be 1: `count_text` has the rule."""
    return [
        f"{path}:{line}: {{{value}}}{text[:40]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).as_posix().startswith(COUNTS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        for line, value, text in _numbered(node)
        if not value.isupper() and value not in UNCOUNTED
    ]


def _numbered(node: ast.JoinedStr) -> Iterator[tuple[int, str, str]]:
    """What is written right before a plural, and the text from there."""
    for value, text in pairwise(node.values):
        if not isinstance(value, ast.FormattedValue) or isinstance(value.value, ast.IfExp):
            continue
        if isinstance(text, ast.Constant) and _COUNTED.match(str(text.value)):
            yield text.lineno, ast.unparse(value.value), str(text.value)


@cache
def printed() -> list[tuple[str, int, str]]:
    """Path, line and text of everything that a person reads."""
    return list(_printed())


def _printed() -> Iterator[tuple[str, int, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        tree, name = ast.parse(path.read_text()), path.relative_to(PACKAGE).as_posix()
        hidden = {id(part) for node in ast.walk(tree) for part in _hidden(node)}
        hidden -= {id(part) for node in ast.walk(tree) for part in _shown(node, name)}
        headings = {id(part) for node in ast.walk(tree) for part in _headings(node)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in hidden:
                continue
            if isinstance(node.value, str) and (" " in node.value or id(node) in headings):
                yield name, node.lineno, node.value
    for path in sorted(PACKAGE.rglob("*.csv")):
        for i, row in enumerate(path.read_text().splitlines(), 1):
            yield path.relative_to(PACKAGE).as_posix(), i, row


def _headings(node: ast.AST) -> Iterator[ast.AST]:
    """The headings of a table: often one word, and read all the same."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "screen.table":
        yield from node.args


def _hidden(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node is not printed: docstrings and bare strings, assertions, plain annotations."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.Assert) and node.msg is not None:
        yield from ast.walk(node.msg)
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        inside = list(ast.walk(node.annotation))
        yield from () if any(isinstance(part, ast.Call) for part in inside) else inside


def _shown(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """The docstrings that are printed: of commands, and of the classes of the reference."""
    if isinstance(node, ast.FunctionDef) and name.startswith("cli/") and _options(node):
        yield from (stmt.value for stmt in node.body if isinstance(stmt, ast.Expr))
    if isinstance(node, ast.ClassDef) and name in REFERENCE:
        yield from (stmt.value for stmt in node.body if isinstance(stmt, ast.Expr))


def _options(node: ast.FunctionDef) -> bool:
    """Whether a function takes options of the command line: its docstring is then its help."""
    return any("typer." in ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation)


def _prose(text: str) -> str:
    return re.sub(r"`+[^`]*`+", "", text)
