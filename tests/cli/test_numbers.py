"""Numbers on the command line: plain digits, finite, within their range; never a traceback."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from tests.docs import made
from tidemill.cli import numbers
from tidemill.cli.main import app
from tidemill.model.errors import SpecError

WRONG = ("1_0", "\uff11", "inf", "nan", "-inf", "1e999", "0x10", "", "9" * 400)


@cache
def numeric() -> list[tuple[str, Any]]:
    """Every option that takes a number, by its command, as the program reads it."""
    root = get_command(app)
    numbers.strictly(root)
    return [
        (path, param)
        for path, command in made.walk("tidemill", root)
        for param in command.params
        if param.param_type_name == "option" and _is_number(param)
    ]


def _is_number(param: Any) -> bool:
    annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    return annotation in (int, float)


def test_there_are_numeric_options():
    """The walk finds them: a seed, a price and a count are among them."""
    found = {name for _, param in numeric() for name in param.opts}
    assert {"--seed", "--usd-per-hour", "--gpus", "--most"} <= found
    assert len(numeric()) > 40


@pytest.mark.parametrize("wrong", WRONG)
def test_every_numeric_option_refuses_what_nobody_means(wrong: str):
    """Underscores, full-width digits, infinities and words are refused by every option."""
    for path, param in numeric():
        with pytest.raises(typer.BadParameter):
            pytest.fail(f"{path} {param.opts[0]} {param.process_value(None, wrong)}")


def test_a_number_with_too_many_digits_is_told_so():
    """23 nines are a whole number: what is wrong is said, not that it is none."""
    param = next(p for path, p in numeric() if path.endswith(" fit") and "--priority" in p.opts)
    with pytest.raises(typer.BadParameter, match="more digits than the 18 that are read"):
        param.process_value(None, "9" * 23)


def _answer(param: Any, typed: str) -> object:
    try:
        return param.process_value(None, typed)
    except typer.BadParameter:
        return "refused"


def test_what_we_read_ourselves_is_what_the_library_reads(tmp_path: Path):
    """Every number and path that is plain has the value, or is refused, as typer says."""
    (tmp_path / "there").touch()
    paths = [str(tmp_path), str(tmp_path / "there"), str(tmp_path / "not"), "-", "x/../y", "\udcff"]
    words: dict[Any, list[str]] = {
        int: ["7", "007", " 3", "-1", "65", "10000001"],
        float: ["2", "-0.5", "1e3", "1e8"],
    }
    roots = get_command(app), get_command(app)
    numbers.strictly(roots[0])
    both = [dict(made.walk("tidemill", root)) for root in roots]
    asked = 0
    for path in both[0]:
        for ours, theirs in zip(*(commands[path].params for commands in both), strict=True):
            annotation = getattr(getattr(ours, "type_descriptor", None), "annotation", None)
            if ours.callback is None and ours.nargs == 1 and not ours.multiple:
                for word in paths if annotation is Path else words.get(annotation, ()):
                    asked += 1
                    assert _answer(ours, word) == _answer(theirs, word), (path, ours.name, word)
    assert asked > 200


@pytest.mark.parametrize("price", ["inf", "nan", "-1", "1e300", "10000001"])
def test_a_price_is_a_price(price: str):
    """An hour costs from nothing to ten million dollars."""
    done = CliRunner().invoke(app, ["twin", "import", "x.csv", "--usd-per-hour", price])
    assert done.exit_code == 2


def test_words_for_the_size_and_the_type_of_a_fleet():
    """`--gpus` is `--accelerators` and `--gpu-type` is `--kind`, where a fleet is made."""
    by_path = dict(made.commands())
    for path, pairs in {
        "tidemill twin generate": [("--accelerators", "--gpus")],
        "tidemill twin import": [("--accelerators", "--gpus"), ("--gpu-type", "--kind")],
    }.items():
        for pair in pairs:
            assert [p for p in by_path[path].params if set(pair) <= set(p.opts)]


@pytest.mark.parametrize(
    "line",
    [
        "unit mig h100 --mix 1g.10gb={}",
        "unit mig h100 --now 1g.10gb:{} --mix 1g.10gb=1",
        "unit balance g6e.xlarge --mix vision={}",
        "unit compare a100:{} h100:8",
        "unit share compute={},bandwidth=0.1,memory=26 train --on h200",
        "unit share 26gb@{} train --on h200",
    ],
)
def test_numbers_inside_other_words_are_plain_too(line: str):
    """A count or a share inside a longer word is refused like any other, with our own error."""
    for wrong in (*WRONG[:-2], "9" * 6000):
        done = CliRunner().invoke(app, line.format(wrong).split())
        assert isinstance(done.exception, SpecError | SystemExit), (wrong, done.exception)
        assert done.exit_code != 0, (wrong, done.output)


def test_a_file_without_end_is_refused():
    """A device that never ends is read as far as a spec may be long."""
    done = CliRunner().invoke(app, ["twin", "load", "/dev/zero"])
    assert isinstance(done.exception, SpecError)
    assert "larger than" in done.exception.message
