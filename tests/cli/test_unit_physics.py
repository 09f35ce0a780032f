"""`tidemill unit fit`, `roofline` and `mfu`: answers, JSON, own models, refusals that help."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tidemill.cli import plot
from tidemill.cli.unit import model_choice
from tidemill.model.errors import SpecError

MINE = """
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
ffn = 14336
is_gated = true
vocabulary = 128256
is_tied = false
"""


def asked(*words: str) -> Any:
    """The JSON that a command answers with."""
    ran = tidemill("unit", *words, "--json")
    assert ran.code in (0, 1), ran.err
    return json.loads(ran.out)


# --- fit ----------------------------------------------------------------------------------------


def test_fit_says_how_few_units_serve_and_what_they_hold():
    """The answer is data on stdout; the formula with its source is beside it."""
    ran = tidemill("unit", "fit", "llama-3-70b", "--on", "h200")
    assert ran.code == 0
    assert "fits to serve on 2 × h200-sxm-141 (tp 2)" in ran.out
    assert "weights" in ran.out
    assert "320.0 KiB per token" in ran.out
    assert "arXiv 2405.04434" in ran.err


def test_fit_of_a_training_run():
    """A whole division, and every byte of it, as JSON."""
    found = asked("fit", "megatron-22b", "--on", "a100-sxm-80", "--train", "--tp", "8", "--pp",
                  "1", "--dp", "1", "--micro-batch", "4", "--sequence", "2048",
                  "--zero", "0")  # fmt: skip
    assert found["fits"] is True
    assert found["units"] == 8
    assert found["held_bytes"]["activations"] == 9.5625 * 2**30
    assert found["total_bytes"] == pytest.approx(sum(found["held_bytes"].values()), abs=6)
    assert found["total_bytes"] < found["usable_bytes"] == 72 * 10**9


def test_what_does_not_fit_comes_with_what_would():
    """The nearest division, how much is missing, changes that help; and the exit code says no."""
    ran = tidemill("unit", "fit", "deepseek-v3", "--on", "h100", "--gpus", "8",
                   "--weights", "fp8")  # fmt: skip
    assert ran.code == 1
    assert "does not fit to serve" in ran.out
    assert "would fit: --weights fp4 → 8 accelerators" in ran.out


def test_a_size_alone_gives_a_bound():
    """70e9 parameters to train: 1,120 GB, at least 14 H100."""
    found = asked("fit", "70b", "--on", "h100", "--train")
    assert (found["bytes"], found["units_by_size_alone"]) == (1120 * 10**9, 14)
    assert "140 GB" in tidemill("unit", "fit", "70b", "--on", "h100").out


def test_figures_on_the_command_line_and_in_a_file_are_one_model(tmp_path: Path):
    """Llama 3 8B by its name, by options and from TOML has the same parameters."""
    file = tmp_path / "eight.toml"
    file.write_text(MINE, encoding="utf-8")
    named = model_choice.chosen("llama-3-8b")
    written = model_choice.chosen(str(file))
    given = model_choice.chosen(
        "mine",
        {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14_336,
         "is_gated": True, "vocabulary": 128_256},
    )  # fmt: skip
    assert written.key == "eight"
    assert given.key == "mine"
    figures = ("layers", "hidden", "heads", "kv_heads", "ffn", "is_gated", "vocabulary")
    for figure in figures:
        assert getattr(named, figure) == getattr(written, figure) == getattr(given, figure)


def test_an_option_changes_a_published_model():
    """``--layers`` beside a known name keeps the rest of its figures."""
    fewer = model_choice.chosen("llama-3-70b", {"layers": 40})
    assert (fewer.layers, fewer.hidden, fewer.kv_heads) == (40, 8192, 8)


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (("fit", "llama-3-71b", "--on", "h100"), "no model called", "`llama-3-70b`"),
        (("fit", "llama-3-8b", "--on", "h1000"), "no GPU model or server type", "did you mean"),
        (("fit", "llama-3-8b", "--on", "h100", "--tp", "3"), "3 tensor ranks", "--tp 1, 2, 4, 8"),
        (("fit", "llama-3-8b", "--on", "h100", "--train", "--recompute", "some"),
         "--recompute is `some`", "none, selective or full"),
        (("fit", "llama-3-8b", "--on", "h100", "--weights", "fp7"), "no precision", "'fp8'"),
        (("fit", "llama-3-8b", "--on", "h100", "--train", "--optimiser", "x"), "no optimiser",
         "'adam'"),
        (("fit", "llama-3-8b", "--on", "h100", "--units", "7", "--tp", "2"), "exactly 7",
         "leave out"),
        (("fit", "mine", "--on", "h100", "--layers", "2", "--hidden", "10", "--heads", "3"),
         "hidden 10 is not a multiple of its 3 heads", "heads"),
        (("roofline", "llama-3-8b", "--on", "h100", "--precision", "fp4"), "no fp4 rate", "fp8"),
        (("roofline", "llama-3-8b", "--on", "h100", "--phase", "nap"), "--phase is `nap`", "train"),
        (("roofline", "13b", "--on", "h100", "--phase", "train"), "only a size", "--layers"),
        (("mfu", "gpt-3", "--on", "a100", "--units", "8"), "must be said once", "--tflops"),
        (("mfu", "gpt-3", "--on", "a100", "--units", "8", "--batch", "4"), "needs the batch",
         "--step-s"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_with_what_can(
    words: tuple[str, ...], says: str, hint: str
):
    """Nothing on stdout, the reason and the way out on stderr, exit code 2."""
    ran = tidemill("unit", *words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert hint in ran.err.partition("hint:")[2]


def test_a_file_that_is_no_model_is_refused(tmp_path: Path):
    """Not TOML, an unknown field with its nearest, a missing one: each in words."""
    for text, says in (("layers", "is not TOML"), ("layer = 3", "unknown field `layer`"),
                       ("layers = 3", "`hidden` is missing")):  # fmt: skip
        file = tmp_path / "bad.toml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SpecError, match=says):
            model_choice.chosen(str(file))


# --- roofline -----------------------------------------------------------------------------------


def test_roofline_of_decoding():
    """What binds, the pieces, the picture and the what-ifs, in that order."""
    ran = tidemill("unit", "roofline", "llama-2-13b", "--on", "h100", "--versus", "h200")
    assert ran.code == 0
    assert "bound by memory bandwidth" in ran.out
    parts = ("attention projections", "1 PFLOP/s", "ridge: 295.2", "twice the FLOP/s", "on h200")
    assert sorted(parts, key=ran.out.index) == list(parts)
    assert "1.00×" in ran.out
    assert "1.43×" in ran.out
    assert "Williams" in ran.err


def test_roofline_as_json():
    """A size alone: 13e9 parameters take 7.76 ms a token on an H100; the ridge is at 295."""
    found = asked("roofline", "13b", "--on", "h100")
    assert found["seconds"] == pytest.approx(7.761e-3, rel=1e-4)
    assert found["binds"] == "memory bandwidth"
    assert found["ridge_tokens"] == pytest.approx(295.2, abs=0.05)
    assert found["what_if"]["twice the memory bandwidth"] == pytest.approx(2)


def test_a_picture_has_its_ridge_and_its_points():
    """The roof rises to the ridge and is flat from there on; points keep their places."""
    lines = plot.roofline(1e15, 1e12, [plot.Point("a", 10, 1e13), plot.Point("b", 1e4, 1e14)])
    rows = {mark: i for i, line in enumerate(lines[:-2]) for mark in "ab" if mark in line}
    assert "┬" in lines[0] or "┬" in lines[1]
    assert rows["b"] < rows["a"]
    assert lines[rows["b"]].index("b") > lines[rows["a"]].index("a")
    assert lines[-1].endswith("FLOP/byte")


def test_points_that_fall_together_are_all_drawn():
    """The second hangs below the first."""
    lines = plot.roofline(1e15, 1e12, [plot.Point(mark, 10, 1e13) for mark in "abc"])
    assert all(any(mark in line[14:] for line in lines[:-2]) for mark in "abc")


# --- mfu ----------------------------------------------------------------------------------------


def test_mfu_of_palm_from_tokens_a_second():
    """46.2 % with attention, 45.7 % without, as published."""
    found = asked("mfu", "palm-540b", "--on", "tpu-v4", "--gpus", "6144",
                  "--tokens-per-s", "238300")  # fmt: skip
    assert found["mfu"] == pytest.approx(0.462, abs=5e-4)
    assert found["mfu_without_attention"] == pytest.approx(0.457, abs=5e-4)


def test_three_ways_to_say_how_fast_a_run_was_agree():
    """A step time, tokens a second and TFLOP/s of one run give one answer; tokens give days."""
    run = ("mfu", "gpt-3", "--on", "a100", "--units", "1536", "--recompute", "full")
    by_rate = asked(*run, "--tflops", "141", "--tokens", "300e9")
    again = asked(*run, "--tokens-per-s", repr(by_rate["tokens_per_s"]))
    step_s = 1536 * 2048 / by_rate["tokens_per_s"]
    by_step = asked(*run, "--batch", "1536", "--step-s", repr(step_s))
    assert by_rate["hfu"] == pytest.approx(141 / 312)
    assert by_step["mfu"] == pytest.approx(by_rate["mfu"])
    assert again["mfu"] == pytest.approx(by_rate["mfu"])
    assert by_rate["days"] == pytest.approx(23, abs=0.6)


def test_the_table_of_mfu():
    """Shares of the peak with bars, and the formula with its source."""
    ran = tidemill("unit", "mfu", "megatron-22b", "--on", "a100", "--gpus", "8", "--batch", "4",
                   "--step-s", "1.1", "--recompute", "selective")  # fmt: skip
    assert "41.7%" in ran.out  # the paper's 41.5 and 43.7, of a step that is 1.10 s when rounded
    assert "43.8%" in ran.out
    assert "arXiv 2205.05198" in ran.err


def test_a_box_is_counted_whole_and_priced():
    """70e9 parameters to train on p5.48xlarge: units are rounded up to boxes, with their price."""
    words = ("fit", "llama-3-70b", "--on", "p5.48xlarge", "--train")
    found = asked(*words)
    assert found["part"] == "h100-sxm-80"
    assert found["boxes"] == -(-found["units"] // 8)
    assert f"as whole servers: {found['boxes']} × p5.48xlarge" in tidemill("unit", *words).out


# --- models -------------------------------------------------------------------------------------


def test_models_are_listed_with_what_follows_from_them():
    """All of them, or those with a word in their names; sources beside the table."""
    ran = tidemill("unit", "models", "deepseek", "llama-3-70b")
    assert "671.03" in ran.out
    assert "70.55" in ran.out
    assert "mixtral" not in ran.out
    assert "arXiv 2412.19437" in ran.err
    found = asked("models")["models"]
    assert len(found) > 25
    assert all(row["source"] and row["parameters_source"] == "computed" for row in found)
    assert "computed from the figures" in ran.err
    refused = tidemill("unit", "models", "zebra")
    assert (refused.code, refused.out) == (2, "")
    assert "no model has `zebra` in its name" in refused.err


CARD = Path(__file__).parents[2] / "examples" / "cards" / "h200-2026-11.json"


def test_a_measured_card_lowers_the_ceilings():
    """The rate that lasts and the bandwidth stand in for the peaks; another part is refused."""
    words = ("roofline", "llama-3-8b", "--on", "h200", "--batch", "8")
    peak, real = asked(*words), asked(*words, "--probe-result", str(CARD))
    card = json.loads(CARD.read_text(encoding="utf-8"))
    read = next(b["gb_s"] for b in card["bandwidths"] if b["what"] == "hbm-read")
    assert real["ceilings"]["flops_per_s"] == pytest.approx(card["sustained"]["tflops"] * 1e12)
    assert real["ceilings"]["bytes_per_s"] == pytest.approx(read * 1e9)
    assert real["seconds"] > peak["seconds"]
    other = tidemill("unit", "roofline", "llama-3-8b", "--on", "h100", "--probe-result", str(CARD))
    assert (other.code, other.out) == (2, "")
    assert "hint: use --on h200-sxm-141" in other.err


def test_under_used_gpus_of_which_nobody_knows_are_no_zero(tmp_path: Path):
    """Jobs that did not say what they use are counted apart; no sum of $0.00 stands for them."""
    spec, journal = tmp_path / "f.toml", str(tmp_path / "f.sqlite")
    spec.write_text(
        '[twin]\nhorizon = "1d"\n[[contract]]\nname = "h"\nkind = "H100"\ncount = 8\n'
        'usd_per_hour = 2\n[[team]]\nname = "a"\n[[job]]\nname = "whole"\nteam = "a"\n'
        'work = "2d"\naccelerators = 1\n',
        encoding="utf-8",
    )
    assert tidemill("twin", "run", str(spec), "-j", journal).code == 0
    ran = tidemill("unit", "underused", "-j", journal)
    assert "$0.00" not in ran.out
    assert "none of the jobs with single-GPU replicas that said what they use" in ran.out
    assert "not counted: 1 job with single-GPU replicas that did not say what they use" in ran.err
    assert tidemill("unit", "slivers", "-j", journal).out == ran.out


def test_what_balance_does_not_model_is_a_dash():
    """Image training states no RAM: its cell is a dash, not 0.0 %."""
    ran = tidemill("unit", "balance", "p5.48xlarge", "--mix", "vision=100")
    row = next(line for line in ran.out.splitlines() if line.strip().startswith("RAM"))
    assert row.split()[3] == "-"
