"""``tidemill unit share``: a table, three axes, the advice, and JSON; refusals in words."""

import json

from tests.cli.shell import tidemill


def test_the_pair_in_words():
    """Axes as bars, what is left, every mode, the advice; the formula goes to stderr."""
    ran = tidemill("unit", "share", "serve", "train")
    assert ran.code == 0, ran.err
    for word in ("compute", "bandwidth", "memory", "time-slice", "mps", "mig", "advice:"):
        assert word in ran.out
    assert "Source:" in ran.err


def test_the_pair_as_json():
    """The same as data: one document with shares, modes and advice."""
    ran = tidemill("unit", "share", "26gb@128", "compute=0.3,bandwidth=0,memory=20", "--on", "h100",
                   "--json")  # fmt: skip
    told = json.loads(ran.out)
    assert told["part"].startswith("h100")
    assert told["tenants"][0]["memory"] == 0.325
    assert told["left_beside_first"]["full"] == ["bandwidth"]
    assert [mode["mode"] for mode in told["modes"]] == ["exclusive", "time-slice", "mps", "mig"]
    only = tidemill("unit", "share", "serve", "decode", "--mode", "mps", "--json")
    assert [mode["mode"] for mode in json.loads(only.out)["modes"]] == ["mps"]


def test_a_former_name_is_still_understood():
    """`sliver` was the name of the tenant `small-kernels`; both give the same answer."""
    today = tidemill("unit", "share", "small-kernels", "train")
    assert today.code == 0
    assert "small-kernels keeps" in today.out
    assert tidemill("unit", "share", "sliver", "train").out == today.out


def test_refusals():
    """An unknown tenant, part or mode is refused with what would work."""
    for words, hint in (
        (("unit", "share", "nobody", "train"), "known: train"),
        (("unit", "share", "serve", "train", "--on", "h2000x"), "did you mean"),
        (("unit", "share", "serve", "train", "--mode", "magic"), "exclusive, time-slice"),
    ):
        ran = tidemill(*words)
        assert ran.code == 2, words
        assert hint in ran.err
