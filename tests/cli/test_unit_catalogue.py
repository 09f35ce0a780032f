"""`tidemill unit show` and `compare`: tables, JSON, user files, and refusals that help."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tidemill.cli.bars import bar
from tidemill.cli.unit import catalogue
from tidemill.model.errors import SpecError

MINE = """
[[part]]
key = "h100-sxm-80"
power_w = 600

[[part]]
key = "mine-1"
vendor = "us"
model = "Mine 1"
memory_gb = 64
memory_tb_s = 2.0
bf16_tflops = 500

[[box]]
key = "our-box"
vendor = "us"
part = "mine-1"
count = 4
usd_per_hour = 4.0
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's file: one row changed, one part and one box new."""
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    return path


def test_show_lists_parts_and_boxes():
    """The table has every part; with --boxes every box; data goes to stdout alone."""
    parts, boxes = tidemill("unit", "show"), tidemill("unit", "show", "--boxes")
    assert "h200-sxm-141" in parts.out
    assert "p5.48xlarge" not in parts.out
    assert "p5.48xlarge" in boxes.out
    assert "dense" in parts.err


def test_show_one_in_full():
    """One row shows its source, confidence and note."""
    ran = tidemill("unit", "show", "b200")
    assert "7.7" in ran.out
    assert "Epoch AI" in ran.out
    assert "high" in ran.out


def test_headline_dense_and_measured_stand_apart():
    """A B200's FP8 headline is 9,000; dense matrices get 4,500; BF16 reached 78 % of its peak."""
    rows = [line.split() for line in tidemill("unit", "show", "b200").out.splitlines()]
    by_name = {row[0]: row[1:] for row in rows if row}
    assert by_name["fp8"] == ["9,000", "4,500", "-", "-"]
    assert by_name["bf16"] == ["4,500", "2,250", "1,745", "78%"]
    assert by_name["fp32"][0] == "-"


def test_show_as_json():
    """JSON has the row as the catalogue holds it; unknown is null."""
    ran = tidemill("unit", "show", "h20", "dgx-h100", "--json")
    found = json.loads(ran.out)
    assert found["parts"][0]["memory_tb_s"] == 4.0
    assert found["parts"][0]["fp4_tflops"] is None
    assert found["boxes"][0]["usd_per_hour"] is None


def test_an_unknown_name_is_refused_with_the_nearest():
    """Exit code 2, what was asked, and what comes near."""
    ran = tidemill("unit", "show", "h10")
    assert ran.code == 2
    assert "no GPU model or server type called `h10`" in ran.err
    assert "did you mean" in ran.err


def test_compare_has_ratios_to_the_first():
    """H200 against H100: the same arithmetic, 1.43 times the bandwidth, 1.76 times the memory."""
    ran = tidemill("unit", "compare", "h100", "h200")
    assert "4.8 ×1.43" in ran.out
    assert "141 ×1.76" in ran.out
    assert "█" in ran.out
    found = json.loads(tidemill("unit", "compare", "h100", "h200", "--json").out)
    assert found["ratio_to_first"]["memory GB"] == [1.0, 141 / 80]
    assert found["compared"][1]["usd_micro_per_hour"] == 7_912_000


def test_fleets_are_not_compared_by_count():
    """1,024 A100 are twice 512 H100 by count and 323 H100 by capability: the table says so."""
    ran = tidemill("unit", "compare", "a100:1024", "h100:512")
    assert "do not compare by count" in ran.out
    assert "×0.50 of a100-sxm-40 by count, ×1.58 by capability" in ran.out
    found = json.loads(tidemill("unit", "compare", "p5:8", "p5en:8", "--json").out)
    assert [one["parts"] for one in found["fleets"]] == [64, 64]
    assert "do not compare" not in tidemill("unit", "compare", "p5:8", "p5en:8").out


def test_a_count_that_is_none_is_refused():
    """`h100:many` is refused with how it is written."""
    ran = tidemill("unit", "compare", "h100:many", "h200")
    assert ran.code == 2
    assert "`many` is no count" in ran.err


@pytest.mark.parametrize("names", [("h100",), ("h100",) * 9], ids=["one", "nine"])
def test_compare_needs_a_few(names: tuple[str, ...]):
    """One is nothing to compare, nine do not fit side by side."""
    ran = tidemill("unit", "compare", *names)
    assert ran.code == 2
    assert "2 to 8" in ran.err


def test_a_users_file_extends_and_changes(mine: Path):
    """A known key changes only what it names; a new key is a new part; a box may use it."""
    book = catalogue.catalogue(str(mine))
    assert book.part("h100").power_w == 600
    assert book.part("h100").bf16_tflops == 989
    assert book.part_of(book.box("our-box")).model == "Mine 1"


def test_the_file_is_found_by_option_and_environment(mine: Path):
    """`--catalogue` and TIDEMILL_CATALOGUE give the same answer."""
    by_option = tidemill("unit", "compare", "our-box", "h100", "--catalogue", str(mine))
    by_name = tidemill("unit", "compare", "our-box", "h100", TIDEMILL_CATALOGUE=str(mine))
    assert by_option.code == 0, by_option.err
    assert by_option.out == by_name.out
    assert "×1.98" in by_option.out


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("[[part]]\nkey = 'x'", r"\[\[part\]\] 1 \(`x`\): `vendor` is missing", "add"),
        ("[[prat]]\nkey = 'x'", "unknown table `prat`", "`part`"),
        ("[part]\nkey = 'x'", "found a single table", "two brackets"),
        ("part = [1]", "expected a table; found 1", "key = value"),
        ("[[part]]\nkey = 'h200-sxm-141'\nmemori_gb = 1", "unknown field `memori_gb`", "memory_gb"),
        ("[[part]]\nkey = 'h200-sxm-141'\nmemory_gb = -1", "expected", "change"),
        (
            "[[box]]\nkey = 'b'\nvendor = 'v'\npart = 'h10'\ncount = 1",
            "server type `b`",
            "did you mean",
        ),
        ("[[part", "is not TOML", "toml.io"),
        ("x = " + "[" * 5000, "is not TOML", "toml.io"),
    ],
)
def test_a_wrong_file_is_refused(text: str, said: str, hint: str):
    """The refusal names the file, the row, what was expected and what was found."""
    with pytest.raises(SpecError, match=said) as refused:
        catalogue.read(text, "mine.toml")
    assert "mine.toml" in refused.value.message or "server type `b`" in refused.value.message
    assert hint in refused.value.hint


def test_a_large_file_is_refused(tmp_path: Path):
    """A file of more than a mebibyte is not read to its end."""
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(SpecError, match="larger than"):
        catalogue.catalogue(str(path))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path):
    """Bytes that are no UTF-8 are refused as such."""
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="is not text"):
        catalogue.catalogue(str(path))


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, ""), (0.5, "██"), (1, "████"), (7, "████"), (-1, ""), (0.28125, "█▏")]
)
def test_bars(share: float, drawn: str):
    """A bar is as long as its share of four characters, to an eighth, and never longer."""
    assert bar(share, width=4) == drawn
