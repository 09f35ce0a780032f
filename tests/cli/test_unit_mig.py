"""``tidemill unit mig``: profiles, the axis, the best layouts and refusals."""

import json
from pathlib import Path

from tests.cli.shell import tidemill


def test_the_axis_is_drawn_with_what_is_stranded():
    """Seven 1g instances fill slices 0 to 6 of an H100; the last slice is hatched as stranded."""
    ran = tidemill("unit", "mig", "h100", "--mix", "1g.10gb=7")
    assert ran.code == 0, ran.err
    assert "▐1g.10gb▌" * 7 + " ░" in ran.out
    assert "stranded: 1 memory slice, 0 compute slices" in ran.out


def test_a_mix_over_several_devices_as_json():
    """What is served and what is left out adds up to the mix, and the layouts to the devices."""
    ran = tidemill("unit", "mig", "a100-80", "--mix", "3g.40gb=5,1g.10gb=2", "--devices", "2",
                   "--json")  # fmt: skip
    assert ran.code == 1, ran.err
    found = json.loads(ran.out)
    assert sum(row["count"] for row in found["devices"]) == 2
    assert found["served"]["memory_slices"] == found["at_most_memory_slices"] == 16
    assert found["left_out"] == {"1g.10gb": 2, "3g.40gb": 1}
    assert found["left_out_requests"] == 3
    assert found["devices_for_all"] == 3


def test_requests_left_over_are_said_and_the_way_to_serve_them_works():
    """7 of 9 requests do not fit: counted by profile, exit code 1; on the 3 devices named, all."""
    mix = ("unit", "mig", "h100", "--mix", "3g.40gb=5,1g.10gb=4")
    ran = tidemill(*mix)
    assert ran.code == 1
    said = "left over: 4 × 1g.10gb, 3 × 3g.40gb (7 of 9 requests do not fit on 1 device"
    assert said in ran.out
    assert "`--devices 3` serves all of them" in ran.out
    enough = tidemill(*mix, "--devices", "3")
    assert enough.code == 0
    assert "left over: nothing, every request is served" in enough.out
    assert tidemill(*mix, "--devices", "2").code == 1


def test_a_change_of_layout_says_whom_it_drains():
    """From a 3g at 0 to a 4g: the 3g is drained, the 1g stays."""
    ran = tidemill("unit", "mig", "h100", "--now", "3g.40gb:0,1g.10gb:4", "--mix",
                   "4g.40gb,1g.10gb=1")  # fmt: skip
    assert "keep 1g.10gb:4; drain 3g.40gb:0; make 4g.40gb:0" in ran.out


def test_refusals_say_what_would_work():
    """A profile of another part, a part without MIG, an overlap and a wrong start are refused."""
    ran = tidemill("unit", "mig", "h100", "--mix", "1g.18gb=3")
    assert (ran.code, ran.out) == (2, "")
    assert "it has `1g.10gb`" in ran.err
    assert "`1g.20gb`" in ran.err.splitlines()[-1]
    for words, said in (
        (("mi300x",), "cannot be partitioned"),
        (("h100", "--mix", "1g.10gb=many"), "not a number"),
        (("h100", "--mix", "1g.10gb", "--now", "3g.40gb:2"), "starts at 0, 4"),
        (("h100", "--mix", "1g.10gb", "--now", "3g.40gb:0,1g.10gb:3"), "taken already"),
        (("h100", "--now", "3g.40gb:0"), "--now is the layout of one device"),
    ):
        ran = tidemill("unit", "mig", *words)
        assert ran.code == 2, words
        assert said in ran.err, words


def test_help_has_examples():
    """The command shows how it is called."""
    assert "$ tidemill unit mig" in tidemill("unit", "mig", "--help").out


def test_the_fleet_and_fit_speak_of_slices(tmp_path: Path):
    """Of a fleet with cut devices, what fits by profile; and what would fit of a wish, now."""
    journal = str(tmp_path / "slices.sqlite")
    text = """
[twin]
horizon = "1d"
[[contract]]
name = "h"
kind = "H100"
count = 8
usd_per_hour = 2
[[team]]
name = "a"
[[job]]
name = "cut"
team = "a"
work = "2d"
profile = "4g.40gb"
accelerators = 8
"""
    spec = tmp_path / "f.toml"
    spec.write_text(text, encoding="utf-8")
    ran = tidemill("twin", "run", str(spec), "-j", journal)
    assert ran.code == 0, ran.err
    found = json.loads(tidemill("fleet", "-j", journal, "--json").out)["mig"]
    assert (found[0]["devices"], found[0]["free_milli"]) == (8, 4000)
    fits = {row["profile"]: (row["beside"], row["empty"]) for row in found[0]["fits"]}
    assert (fits["3g.40gb"], fits["4g.40gb"]) == ((8, 0), (0, 0))
    assert "fit beside" in tidemill("fleet", "-j", journal).out
    asked = ("fit", "-j", journal, "--team", "a", "--profile")
    assert "runs now" in tidemill(*asked, "3g.40gb", "--gpus", "8").out
    waits = tidemill(*asked, "4g.40gb").out
    assert "`3g.40gb`" in waits
    assert "would do" in tidemill(*asked, "1g.18gb").err
