"""How kernels are compiled: not for a single question, and once for all processes."""

import os
import subprocess
import sys
from pathlib import Path

KERNELS = """
from pathlib import Path
from tidemill.compiled import folder

kernel = folder(Path(__file__).parent, dimensions=lambda _: 0, whole={})


@kernel
def double(n):
    return 2 * n


@kernel
def up_to(n):
    total = 0
    for i in range(n):
        total += double(i)
    return total
"""
PROGRAM = """
import sys
from tidemill.compiled import interpreting
import sums

with interpreting():
    print(sums.up_to(10), "llvmlite" in sys.modules)
input()
print(sums.up_to(10))
print(sums.up_to.misses)
"""


def test_a_kernel_is_interpreted_for_a_question_and_then_compiled_once(tmp_path: Path):
    """A question does without LLVM; of two processes one compiles, and the other loads that."""
    (tmp_path / "sums.py").write_text(KERNELS)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "90 False\n"
        assert not list(tmp_path.rglob("*.kernel"))
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[0].split() for process in both]
    assert [result for result, *_ in told] == ["90", "90"]
    assert sum(int(misses) for _, misses in told) == 1


FOLDER = """
from pathlib import Path
from tidemill.compiled import folder, shared

kernel = folder(Path(__file__).parent, dimensions=lambda name: int(name == "row"), whole={})


@kernel
@shared
def add_up(row):
    total = 0
    for i in range(len(row)):
        total += row[i]
    return total


@kernel
def twice(row, more):
    return 2 * add_up(row) + more
"""
CALLS = """
import sys
import numpy as np
import rows

print(rows.twice(np.arange(4), 5), rows.twice.misses, "llvmlite" in sys.modules)
try:
    rows.twice([0, 1, 2, 3], 5)
except TypeError:
    print("refused")
"""


def call(folder: Path, home: Path | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CALLS],
        cwd=folder,
        env=os.environ | {"XDG_CACHE_HOME": str(home or folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")


def test_what_was_compiled_is_loaded(tmp_path: Path):
    """With the same results, and the same refusal of what it was not compiled for.

    A file that is damaged, or of another machine, is not loaded: it is compiled again.
    """
    (tmp_path / "rows.py").write_text(FOLDER)
    assert call(tmp_path)[:2] == ["17 1 True", "refused"]
    kept = sorted(tmp_path.rglob("*.kernel"))
    assert [path.name for path in kept] == ["rows.add_up.kernel", "rows.twice.kernel"]
    assert call(tmp_path)[:2] == ["17 0 True", "refused"]
    whole = kept[1].read_bytes()
    for other in (whole[:-9], whole.replace(b'"made_with": ["3', b'"made_with": ["2')):
        assert other != whole
        kept[1].write_bytes(other)
        assert call(tmp_path)[0] == "17 1 True"


def test_a_text_that_changed_is_compiled_again(tmp_path: Path):
    """Also one of another file, whose constant it has."""
    (tmp_path / "more.py").write_text("MORE = 3\n")
    text = FOLDER.replace("2 * add_up", "MORE * add_up")
    (tmp_path / "rows.py").write_text(f"from more import MORE\n{text}")
    assert call(tmp_path)[0] == "23 1 True"
    (tmp_path / "more.py").write_text("MORE = 2 + 2\n")  # Python itself asks for size and second
    assert call(tmp_path)[0] == "29 1 True"


def test_where_nothing_can_be_written_it_is_kept_at_home(tmp_path: Path):
    """A package that somebody else installed; a file stands where the folder would be."""
    there, home = tmp_path / "there", tmp_path / "home"
    there.mkdir()
    (there / "rows.py").write_text(FOLDER)
    (there / "__pycache__").write_text("")
    assert call(there, home)[0] == "17 1 True"
    assert len(list(home.rglob("*.kernel"))) == 2
    assert call(there, home)[0] == "17 0 True"
