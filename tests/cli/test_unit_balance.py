"""`tidemill unit balance`: a card, a fleet, JSON, and refusals."""

import json

import pytest

from tests.cli.shell import tidemill


def test_a_card_says_what_binds_and_what_to_add():
    """A small box on images: the cores are full, and cores are the next thing to buy."""
    ran = tidemill("unit", "balance", "g6e.xlarge", "--mix", "vision")
    assert ran.code == 0, ran.err
    assert "100.0% ◀" in ran.out
    assert "700 images/s" in ran.out
    added = ran.out[ran.out.index("10 % more") :].splitlines()
    assert added[1].split()[0] == "cores"
    assert "bill of materials" in ran.err


def test_a_fleet_is_added_up():
    """Two kinds of boxes: each has its card, and a line says what all do together."""
    words = ("p5.48xlarge:8", "g6e.48xlarge:4", "--mix", "decode=70,prefill=30")
    ran = tidemill("unit", "balance", *words)
    assert "8 × p5.48xlarge" in ran.out
    assert "96" in ran.out
    found = json.loads(tidemill("unit", "balance", *words, "--json").out)
    assert [row["count"] for row in found["boxes"]] == [8, 4]
    assert found["boxes"][0]["work"][0]["share"] == 0.7
    assert found["confidence"] == "modelled"


def test_what_does_not_fit_is_said():
    """Training 70 B parameters does not fit eight H100, nor a laptop's worth of one L4."""
    ran = tidemill("unit", "balance", "p5", "--mix", "training", "--model", "llama-2-70b")
    assert "training does not fit: memory" in ran.out


def test_what_is_unknown_is_said():
    """An A10G has no published BF16 rate: no pace is claimed that arithmetic might forbid."""
    ran = tidemill("unit", "balance", "g5.xlarge", "--mix", "prefill", "--model", "llama-2-7b")
    assert "unknown of this server: FLOPs; paces are at most these" in ran.out
    assert "unknown of" not in tidemill("unit", "balance", "p5").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("p5", "--mix", "dreaming=3"), "training, decode, prefill, vision"),
        (("p5", "--mix", "decode,decode"), "each once"),
        (("p5", "--mix", "decode=many"), "no number"),
        (("p5", "--mix", "decode=-1"), "no number"),
        (("p5", "--mix", "decode=nan"), "no number"),
        (("p5", "--mix", "decode=0"), "adds up to nothing"),
        (("p5:0",), "is no count"),
        (("p5:many",), "is no count"),
        (("p55",), "did you mean"),
        (("p5", "--model", "llama-9"), "no model called"),
    ],
)
def test_refusals_say_what_would_work(words: tuple[str, ...], said: str):
    """Exit code 2, and a hint."""
    ran = tidemill("unit", "balance", *words)
    assert ran.code == 2
    assert said in ran.err
