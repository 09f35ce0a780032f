"""The Python that the pages show runs, and says what it says."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages
from tests.docs.pages import name_of
from tests.plugins.added import as_before
from tidemill import api, explain
from tidemill.model.rows import Job, Role, Shape

PAGES = [p for p in pages.pages() if pages.blocks(p.read_text(encoding="utf-8"), "python")]


def granted() -> dict[str, Any]:
    """What a page may take for granted: a statement and a World, what is in them, a job."""
    world, policy = api.open_world("out/demo.sqlite")
    return {
        "__name__": "page",
        "world": world,
        "policy": policy,
        "statement": api.read_statement("out/demo.sqlite"),
        "board": explain.board(world, policy),
        "contracts": world.contract_rows,
        "queues": world.queue_rows,
        "job": Job("one", Shape(world.queue_rows[0].name, (Role(),))),
        "events": [],
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_run(page: Path, desk: Path):
    """The Python of a page runs from top to bottom, and its assertions hold."""
    names = granted()
    with as_before():
        for block in pages.blocks(page.read_text(encoding="utf-8"), "python"):
            source = compile("\n" * block.line + block.text, name_of(page), "exec")
            exec(source, names)


def test_the_whole_api_is_told():
    """The page about the Python API names every public function and class of it."""
    text = pages.text_of("docs/reference/python-api.md")
    public = [
        name
        for name, value in vars(api).items()
        if getattr(value, "__module__", "") == api.__name__ and not name.startswith("_")
    ]
    assert [name for name in public if f"`{name}" not in text] == []
