"""``tidemill unit step``: parts, plans, jobs of a spec, and refusals."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "physics.toml")
LLAMA = ("unit", "step", "llama-3-70b", "--on", "p5.48xlarge", "--gpus", "256", "--tp", "8")


def test_the_parts_of_a_step_add_up_on_screen_and_as_json():
    """Milliseconds printed are those of the step; the JSON's parts add up to its seconds."""
    ran = tidemill(*LLAMA, "--pp", "4", "--interleave", "5")
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.out.splitlines() if "%" in line and "MFU" not in line]
    ms = [float(next(word for word in row if "." in word).replace(",", "")) for row in rows]
    assert sum(ms[:-1]) == pytest.approx(ms[-1], abs=0.5)
    assert "█" in ran.out
    assert "source:" in ran.err
    found = json.loads(tidemill(*LLAMA, "--pp", "4", "--json").out)
    assert sum(found["parts_s"].values()) == pytest.approx(found["seconds"])
    assert 0.3 < found["mfu"] < 0.55
    assert found["fits"] is True


def test_a_search_lists_plans_that_fit_the_quickest_first():
    """Every plan fits, each divides otherwise, and none is quicker than the first."""
    ran = tidemill("unit", "step", "llama-3-8b", "--on", "h100", "--gpus", "64", "--search",
                   "--json")  # fmt: skip
    plans = json.loads(ran.out)["plans"]
    assert len(plans) == 5
    assert all(plan["fits"] for plan in plans)
    seconds = [plan["seconds"] for plan in plans]
    assert seconds == sorted(seconds)
    sizes = [tuple(plan["division"][key] for key in ("tensor", "pipeline")) for plan in plans]
    assert len(set(sizes)) == 5


def test_a_job_of_a_twin_says_why_its_links_take_what_they_take():
    """The shares of the ledger beside the parts of the step that they come from."""
    found = json.loads(
        tidemill("unit", "step", "--spec", EXAMPLE, "--job", "pretrain-70b", "--json").out
    )["sizes"][0]
    talk = sum(found["parts_s"][name] for name in ("tensor", "data", "pipeline_send"))
    assert found["efficiency"]["links_ppm"] == pytest.approx(1e6 * talk / found["seconds"], abs=1)
    ran = tidemill("unit", "step", "--spec", EXAMPLE, "--job", "photos-00003")
    assert "stalled: host 50.00%" in ran.out


@pytest.mark.parametrize(
    ("words", "said", "helps"),
    [
        (("llama-3-70b", "--gpus", "100", "--tp", "8"), "--gpus is 100", "--gpus 96 or 104"),
        (("llama-3-70b", "--gpus", "24", "--tp", "8", "--pp", "3"), "3 pipeline stages", "--pp 1"),
        (("llama-3-70b", "--gpus", "48", "--tp", "3"), "3 tensor ranks", "--tp 1"),
        (("llama-3-8b", "--gpus", "8", "--recompute", "some"), "`some`", "none, selective or full"),
        (("llama-3-8b", "--gpus", "8", "--hide", "most"), "`most`", "none, backward or all"),
        (("llama-9", "--gpus", "8"), "llama-9", "did you mean"),
        (("llama-3-8b", "--gpus", "8", "--on", "p9"), "p9", ""),
        (("llama-3-8b", "--on", "a100", "--precision", "fp8"), "fp8", "bf16"),
        (("llama-3-405b", "--gpus", "8", "--search"), "fits", "more accelerators"),
        (("--job", "x"), "--spec and --job", "examples/physics.toml"),
        (("--spec", EXAMPLE, "--job", "pretrain"), "no job or workload", "pretrain-70b"),
        (("--spec", EXAMPLE, "--job", "measured"), "not from physics", "`computes`"),
        ((), "no model", "llama-3.1-70b"),
    ],
)
def test_refusals_say_what_would_work(words: tuple[str, ...], said: str, helps: str):
    """Nothing on stdout, exit code 2, what was found and a hint."""
    ran = tidemill("unit", "step", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert helps in ran.err


def test_a_host_that_stalls_is_a_part_of_the_step():
    """A quarter of the step waits for input, and the rest takes as long as before."""
    plain = json.loads(tidemill(*LLAMA, "--json").out)
    stalled = json.loads(tidemill(*LLAMA, "--host-stall", "0.25", "--json").out)
    assert stalled["parts_s"]["host"] == pytest.approx(0.25 * stalled["seconds"])
    assert stalled["seconds"] == pytest.approx(plain["seconds"] / 0.75)
