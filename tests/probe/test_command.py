"""``tidemill probe`` on a machine without a GPU, and ``probe compare`` on any machine."""

import importlib.util
import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.probe.cards import card
from tidemill.probe.card import written

EXAMPLE = Path(__file__).parents[2] / "examples" / "cards" / "h200-2026-11.json"


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is here")
def test_without_torch_it_says_so():
    """Without torch the probe says what is missing and what to install, and measures nothing."""
    ran = tidemill("probe", "--quick", "--json")
    assert ran.code == 6
    assert ran.out == ""
    assert "torch, which is not installed" in ran.err
    assert "tidemill[probe]" in ran.err


def test_the_slow_one_is_named(tmp_path: Path):
    """Four cards of one part: the slow one is named, and the exit code says that there is one."""
    paths = []
    for number, tflops in enumerate((747, 750, 744, 610)):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_bytes(written(card(bf16=tflops)))
    ran = tidemill("probe", "compare", *map(str, paths))
    assert ran.code == 1
    assert "slow" in ran.out
    assert "3.json" in ran.out
    told = json.loads(tidemill("probe", "compare", *map(str, paths), "--json").out)
    assert told["slow"] == [str(paths[3])]
    assert told["standing"][0]["part"] == "h200-sxm-141"
    healthy = tidemill("probe", "compare", *map(str, paths[:3]))
    assert healthy.code == 0


def test_what_is_no_card_is_refused(tmp_path: Path):
    """A file that is no card is refused with the exit code of things that cannot be used."""
    path = tmp_path / "x.json"
    path.write_text("{}", encoding="utf-8")
    assert tidemill("probe", "compare", str(path)).code == 2
    assert tidemill("probe", "compare", str(tmp_path / "absent.json")).code == 2


def test_a_card_joins_the_catalogue(tmp_path: Path):
    """A card's row, read as a catalogue file, replaces what is known to be reached; a part that the
    catalogue does not know has no row.
    """
    file = tmp_path / "parts.toml"
    file.write_text(tidemill("probe", "row", str(EXAMPLE)).out, encoding="utf-8")
    told = tidemill("unit", "show", "h200", "--catalogue", str(file), "--json")
    assert told.code == 0, told.err
    assert "766" in told.out
    assert "measured 2026-11-15 with tidemill probe" in told.out
    strange = tmp_path / "strange.json"
    strange.write_bytes(written(card(name="Mill Stone 9", bf16=10)))
    ran = tidemill("probe", "row", str(strange))
    assert ran.code == 2
    assert "Mill Stone 9" in ran.err


def test_the_example_card_says_how_it_stands():
    """One card alone stands beside the catalogue, its pairs beside what the laws predict."""
    ran = tidemill("probe", "compare", str(EXAMPLE))
    assert ran.code == 0, ran.err
    assert "of its dense bf16 peak" in ran.out
    assert "predictions that were held out" in ran.out
