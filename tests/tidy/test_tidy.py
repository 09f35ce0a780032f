"""House rules as tests: "X is banned, use Y" over every file, and proof that each can fail."""

import os
import subprocess
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from tests.tidy import rules
from tests.tidy.rules import Rule, Source

ROOT = Path(__file__).resolve().parents[2]
BUILT = frozenset({".venv", "build", "dist", "site", "out", "node_modules", "__pycache__"})


def test_only_the_compiler_s_room_imports_llvm():
    """Only `compiled/` imports LLVM, so nothing waits for it to load before a kernel is called."""
    assert findings(rules.llvm_outside_compiled, "src", "tests", "bench") == []


def test_kernels_decide_in_order():
    """No kernel uses fastmath, parallel or prange, which make decisions depend on the machine."""
    assert findings(rules.careless_kernels, "src") == []


def test_kernels_make_no_arrays():
    """No kernel makes an array, a list or a dictionary: nobody would free it."""
    assert findings(rules.allocating_kernels, "src") == []


def test_names_say_what_they_hold():
    """No module or package is named utils, common, helpers, misc or manager."""
    assert findings(rules.vague_names, "src", "tests", "bench") == []


def test_only_the_command_line_prints():
    """Nothing under src prints, except cli."""
    assert findings(rules.prints, "src") == []


def test_the_core_reaches_nothing_outside():
    """The core opens no file and draws no random number."""
    assert findings(rules.outside_reached_from_core, "src") == []


def test_only_fold_writes_the_world():
    """The writable side of the World's columns is used by fold and the model only."""
    assert findings(rules.ink_outside_fold, "src", "bench") == []


def test_no_notes_to_self():
    """What is still to do is an issue, not a comment."""
    assert findings(rules.notes_to_self, "src", "tests", "bench") == []


def test_style_is_given_in_one_way():
    """No command writes markup around values: names with brackets would break it."""
    assert findings(rules.markup_outside_screen, "src") == []


def test_no_bare_except():
    """Every except names what it expects."""
    assert findings(rules.bare_excepts, "src", "tests", "bench") == []


def test_every_module_says_what_it_answers():
    """Every module has a docstring."""
    assert findings(rules.missing_module_docstring, "src", "tests", "bench") == []


def test_every_test_states_its_fact():
    """Every test function has a docstring."""
    assert findings(rules.tests_without_fact, "tests") == []


def test_no_test_sleeps():
    """No test waits for the clock."""
    assert findings(rules.sleeps, "tests") == []


def test_no_file_is_long():
    """No Python file is longer than 600 lines."""
    assert findings(rules.long_files, "src", "tests", "bench") == []


def test_no_registry_is_named():
    """No tracked file names a package registry: locks are hashes, not addresses."""
    assert [line for source in texts() for line in rules.registry_hosts(source)] == []


def test_no_path_of_one_machine():
    """No tracked file holds an absolute path of somebody's machine."""
    assert [line for source in texts() for line in rules.machine_paths(source)] == []


MODULE = "src/tidemill/scheduling/fit.py"
KERNELS = "src/tidemill/scheduling/kernels.py"
TEST = "tests/scheduling/test_fit.py"
COMMAND = "src/tidemill/cli/why.py"

# `\x` escapes keep the samples from being found in this file.
BAD: list[tuple[Rule, str, str]] = [
    (rules.llvm_outside_compiled, MODULE, "from llvmlite import binding"),
    (rules.llvm_outside_compiled, KERNELS, "def f():\n    import llvmlite.ir"),
    (rules.allocating_kernels, MODULE, "@kernel\ndef f(n):\n    return np.zeros(n)"),
    (rules.allocating_kernels, MODULE, "@kernel\ndef f(jobs):\n    return [jobs[0]]"),
    (rules.careless_kernels, KERNELS, "@njit(cache=True, fastmath=True)\ndef f(): ..."),
    (rules.careless_kernels, KERNELS, "for j in prange(3): ..."),
    (rules.markup_outside_screen, COMMAND, "from rich.markup import escape"),
    (rules.markup_outside_screen, COMMAND, "print(f'[bold]{name}[/]')"),
    (rules.vague_names, "src/tidemill/live/utils.py", ""),
    (rules.vague_names, "tests/helpers/build.py", ""),
    (rules.prints, MODULE, "print('fits')"),
    (rules.outside_reached_from_core, MODULE, "open('jobs.csv')"),
    (rules.outside_reached_from_core, MODULE, "rng = np.random.default_rng(1)"),
    (rules.outside_reached_from_core, MODULE, "from numpy.random import default_rng"),
    (rules.ink_outside_fold, MODULE, "world.nodes.ink.free[n] = 0"),
    (rules.notes_to_self, MODULE, "x = 1  # T\x4fDO: tune"),
    (rules.bare_excepts, MODULE, "try:\n    f()\nexcept:\n    pass"),
    (rules.missing_module_docstring, MODULE, "x = 1"),
    (rules.missing_module_docstring, "src/tidemill/engine/__init__.py", ""),
    (rules.tests_without_fact, TEST, "def test_fits():\n    assert fits()"),
    (rules.tests_without_fact, TEST, "class TestFit:\n    async def test_it(self): ..."),
    (rules.sleeps, TEST, "import time\ntime.sleep(1)"),
    (rules.sleeps, TEST, "from time import sleep"),
    (rules.long_files, MODULE, "x = 1\n" * 601),
    (rules.registry_hosts, "requirements/run.txt", "--index-url https://pyp\x69.org/simple"),
    (rules.machine_paths, "docs/index.md", "cd /h\x6fme/ada/tidemill"),
]

GOOD: list[tuple[Rule, str, str]] = [
    (rules.llvm_outside_compiled, "src/tidemill/compiled/a.py", "from llvmlite import binding"),
    (rules.allocating_kernels, MODULE, "@kernel\ndef f(jobs, n):\n    return jobs[n]"),
    (rules.allocating_kernels, MODULE, "def f(n):\n    return np.zeros(n)"),
    (rules.careless_kernels, KERNELS, "@njit(cache=True)\ndef f():\n    return range(3)"),
    (rules.markup_outside_screen, COMMAND, "print(screen.styled('[bold]{}[/]', name))"),
    (rules.vague_names, "src/tidemill/live/translate.py", ""),
    (rules.prints, "src/tidemill/cli/main.py", "print('fits')"),
    (rules.outside_reached_from_core, "src/tidemill/twin/chance.py", "np.random.default_rng(1)"),
    (rules.outside_reached_from_core, "src/tidemill/__init__.py", "open('x')"),
    (rules.ink_outside_fold, "src/tidemill/engine/fold/nodes.py", "world.ink.free[n] = 0"),
    (rules.ink_outside_fold, "src/tidemill/model/world.py", "world.ink.free[n] = 0"),
    (rules.bare_excepts, MODULE, "try:\n    f()\nexcept KeyError:\n    pass"),
    (rules.missing_module_docstring, "tests/engine/__init__.py", ""),
    (rules.tests_without_fact, TEST, 'def test_fits():\n    """A gang of two fits."""'),
    (rules.sleeps, TEST, "clock.sleep(1)"),
    (rules.long_files, MODULE, "x = 1\n" * 600),
    (rules.machine_paths, "docs/index.md", "see src/work/notes and https://example.net/home/a"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_rule_finds_the_bad_sample(rule: Rule, path: str, text: str):
    """Each rule can fail: it finds its bad sample."""
    assert list(rule(Source(PurePosixPath(path), text))) != []


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_rule_passes_the_good_sample(rule: Rule, path: str, text: str):
    """No rule fires on what it recommends."""
    assert list(rule(Source(PurePosixPath(path), text))) == []


def test_every_rule_has_a_bad_sample():
    """No rule goes unproven."""
    named = {name for name, thing in vars(rules).items() if _is_rule(name, thing)}
    assert named == {rule.__name__ for rule, _, _ in BAD}


def findings(rule: Rule, *folders: str) -> list[str]:
    """Run a rule over the Python files in these folders; a folder without files is a mistake."""
    here = [s for s in texts() if s.is_python and any(map(s.is_under, folders))]
    assert here, f"no Python files in {folders}"
    return [line for source in here for line in rule(source)]


@cache
def texts() -> tuple[Source, ...]:
    """Every text file of the project: tracked, or new and not ignored."""
    return tuple(
        Source(PurePosixPath(name), text)
        for name in sorted(_from_git() or _from_walking())
        if (text := _read(ROOT / name)) is not None
    )


def _from_git() -> list[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "-coz", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no git, or an unpacked archive
        return []
    return [name for name in listed.split("\0") if name]


def _from_walking() -> list[str]:
    found = []
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if name not in BUILT and not name.startswith(".")]
        found += [(Path(folder, name).relative_to(ROOT)).as_posix() for name in names]
    return found


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):  # deleted, linked or binary
        return None


def _is_rule(name: str, thing: object) -> bool:
    is_local = getattr(thing, "__module__", "") == rules.__name__
    return is_local and callable(thing) and name != "Source" and not name.startswith("_")
