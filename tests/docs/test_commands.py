"""The commands that the pages show: they exist, and those marked ``console`` run."""

import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.docs import made, pages
from tests.docs.pages import Block, name_of
from tests.plugins.added import added
from tidemill.cli.main import app
from tidemill.cli.options import JournalGroup

PAGES = pages.pages()
COMMANDS = dict(made.commands())
BY_SHELL = ("cp ", "sed ", "printf ", "mkdir ")
SAYS_NO = ("tidemill unit fit llama-3-70b --on h100 --train --tp 8 --pp 1 --dp 1",)
LONG = ("tidemill demo",)  # has a test of its own; the desk already holds what it would leave


def shown(block: Block) -> list[str]:
    """The commands of a block: lines after a `$`, with lines that end in a backslash joined."""
    text = block.text.replace("\\\n", " ")
    return [line[2:].strip() for line in text.splitlines() if line.startswith("$ ")]


def console(page: Path) -> list[str]:
    """The commands that a reader may type on this page, in order."""
    text = page.read_text(encoding="utf-8")
    return [line for block in pages.blocks(text, "console") for line in shown(block)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_exists(page: Path):
    """Every command in a block, and in running text, has the words and options that it uses."""
    text = page.read_text(encoding="utf-8")
    in_blocks = [line for block in pages.blocks(text) for line in shown(block)]
    in_text = re.findall(r"`(tidemill [^`\n…]+)`", text)
    lines = [line for line in (*in_blocks, *in_text) if line.startswith("tidemill ")]
    assert [line for line in lines if unknown_words(line)] == []


@pytest.mark.parametrize("page", [p for p in PAGES if console(p)], ids=name_of)
def test_console_blocks_run(page: Path, desk: Path):
    """What a page shows as a console session runs without error, from top to bottom."""
    with ExitStack() as held:
        for line in console(page):
            if line == "pip install ./examples/plugins":
                held.enter_context(added())
            elif line.startswith(BY_SHELL):
                subprocess.run(["bash", "-c", line], cwd=desk, check=True)
            elif line.startswith("tidemill ") and not line.startswith(LONG):
                run(line)


def test_an_unknown_option_is_found():
    """The check of options can fail: it knows a misspelt option and a command that is not there."""
    assert unknown_words("tidemill ledger --bye team") == ["--bye"]
    assert unknown_words("tidemill leger") == ["leger"]
    assert unknown_words("tidemill ledger --by team > out.txt") == []


def run(line: str) -> None:
    """Run one command as the shell would; a file that lies on the desk already stays small."""
    words, target = shlex.split(line.split(" | ", maxsplit=1)[0]), None
    if ">" in words:
        at = words.index(">")
        words, target = words[:at], words[at + 1]
    found = CliRunner().invoke(app, words[1:], catch_exceptions=True)
    assert found.exit_code == (1 if line in SAYS_NO else 0), (
        f"{line}\n{found.output}\n{found.exception}"
    )
    if target is not None and not Path(target).exists():
        Path(target).write_text(found.stdout, encoding="utf-8")


def unknown_words(line: str) -> list[str]:
    """Options that a command does not have, or the word that is no command."""
    words = shlex.split(re.split(r" [|>#] ", line)[0])
    path = words[0]
    for word in words[1:]:
        if f"{path} {word}" not in COMMANDS:
            break
        path += f" {word}"
    command = COMMANDS[path]
    rest = words[path.count(" ") + 1 :]
    takes_path = isinstance(command, JournalGroup)  # a path may stand where a command would
    if getattr(command, "commands", None) and not takes_path and rest and rest[0][0] != "-":
        return rest[:1]
    spelt = [name for p in command.params for name in (*p.opts, *p.secondary_opts)]
    known = {*spelt, "--help", "-h"}
    return [word.split("=")[0] for word in rest if _is_option(word) and word not in known]


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-")[:1].isdigit() and word != "-"
