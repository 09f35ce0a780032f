"""Jobs that say what they compute: shares from physics, in the ledger, explained and exact."""

from pathlib import Path

import pytest

from tests.ledger.twins import Kept
from tidemill.engine.loop import Loop
from tidemill.ledger import reader, statement
from tidemill.ledger.buckets import Bucket
from tidemill.model.errors import SpecError
from tidemill.model.rows import Efficiency
from tidemill.model.states import Confidence
from tidemill.model.world import World
from tidemill.twin import generate
from tidemill.twin.backend import Twin
from tidemill.twin.physics import Reckoning
from tidemill.twin.spec import fleet_spec
from tidemill.twin.spec.tables import Spec, Traits

EXAMPLE = Path(__file__).parents[2] / "examples" / "physics.toml"
FLEET = """
[twin]
horizon = "1d"

[[contract]]
name = "h"
kind = "{kind}"
count = 64
usd_per_hour = 2
cpu_per_node = 32

[[team]]
name = "a"

[[job]]
name = "j"
team = "a"
accelerators = {accelerators}
work = "5h"
{words}
"""
LLAMA = (
    "parallelism = { tensor = 8, pipeline = 2, sequence = 8192, batch = 64 }\n"
    'computes = { model = "llama-3-70b" }'
)


def one(words: str, kind: str = "H100", accelerators: int = 32) -> tuple[Traits, Spec]:
    """A fleet with one job that has these words."""
    parsed = fleet_spec.parse(FLEET.format(words=words, kind=kind, accelerators=accelerators))
    return parsed.jobs[0], parsed


def submitted(words: str, kind: str = "H100", accelerators: int = 32) -> Efficiency:
    """The efficiency that the job is submitted with."""
    _, parsed = one(words, kind, accelerators)
    return next(iter(generate.stream(parsed))).job.efficiency


def reckoned(words: str, accelerators: int = 32) -> Reckoning:
    """How the efficiency of the job comes about."""
    row, parsed = one(words, accelerators=accelerators)
    return Reckoning(row, parsed, accelerators * 1000)


def test_a_training_job_gets_its_shares_from_the_step():
    """Links and MFU are those of the step-time model, marked modelled."""
    found, step = submitted(LLAMA), reckoned(LLAMA).step
    assert step is not None
    assert found.confidence is Confidence.MODELLED
    assert found.links_ppm == round(step.links * 1_000_000) > 10_000
    assert found.mfu_ppm == int(step.mfu * 1_000_000) > 300_000
    assert found.host_ppm == 0


def test_a_starved_host_takes_its_share_first():
    """Four cores that prepare 350 a second each feed half of 2,800: the worked example."""
    words = "computes = { gflop_per_sample = 24.6, samples_per_s = 2800, samples_per_core_s = 350 }"
    found = submitted(words, accelerators=8)
    assert found.host_ppm == 500_000
    alone = 24.6e9 * 2800 / 989e12
    assert found.mfu_ppm == pytest.approx(alone / 2 * 1e6, abs=2)


def test_more_processors_feed_more():
    """Eight cores for each accelerator are enough; the job asks for them itself."""
    words = (
        "cpu_per_accelerator = 8\n"
        "computes = { gflop_per_sample = 24.6, samples_per_s = 2800, samples_per_core_s = 350 }"
    )
    with pytest.raises(SpecError):
        submitted(words, accelerators=8)  # the node has 32 for eight accelerators
    assert submitted(words, accelerators=4).host_ppm == 0


def test_a_service_reads_all_its_weights_for_every_token():
    """Decoding with 16 sequences is bound by memory: MFU is small, links are not nothing."""
    words = (
        'class = "inference"\nparallelism = { tensor = 8, sequence = 4096, batch = 16 }\n'
        'computes = { model = "llama-3-70b" }'
    )
    found = submitted(words, accelerators=8)
    assert 0 < found.mfu_ppm < 100_000
    assert found.links_ppm > 0


def test_decoding_one_sequence_is_memory_bound_not_below_its_roof():
    """Llama 3 8B at batch 1 on one H100, by hand.

    Weights: 8.03e9 × 2 bytes, read at the printed 3.35 TB/s in 4.79 ms; its 1.6e10 operations take
    0.016 ms at 989 TFLOP/s, so the attainable roof is 0.33 % of the peak. Memory reaches 85 % of
    its printed rate: 85 % of the time is memory-bound, 15 % below the attainable roof.
    """
    words = (
        'class = "inference"\nparallelism = { sequence = 1024, batch = 1 }\n'
        'computes = { model = "llama-3-8b" }'
    )
    found = submitted(words, accelerators=1)
    assert found.attainable_ppm == pytest.approx(3_300, rel=0.05)
    bound = found.memory_bound_ppm
    assert bound is not None
    assert bound + found.mfu_ppm == pytest.approx(850_000, rel=0.001)


def test_dense_training_is_hardly_memory_bound():
    """Products of thousands of tokens are far right of the ridge: the roof is near the peak, and
    what a step misses is below the attainable roof.
    """
    found = submitted(LLAMA)
    assert found.attainable_ppm is not None
    assert found.memory_bound_ppm is not None
    assert found.attainable_ppm > 800_000
    assert found.memory_bound_ppm < 100_000


def test_samples_do_not_say_how_memory_binds():
    """Of a job that names only its samples and their operations, the split stays unknown."""
    words = "computes = { gflop_per_sample = 24, samples_per_s = 3000, kb_per_sample = 100 }"
    assert submitted(words, accelerators=1).memory_bound_ppm is None


def test_a_stated_roof_divides_a_stated_mfu():
    """On half of its roof, a job spends half of its time at it: 6 % useful, 44 % memory-bound."""
    found = submitted("mfu = 0.06\nattainable = 0.12\n", accelerators=1)
    assert found.memory_bound_ppm == 440_000
    with pytest.raises(SpecError, match="above the roof"):
        submitted("mfu = 0.2\nattainable = 0.12\n", accelerators=1)
    with pytest.raises(SpecError, match="without `mfu`"):
        submitted("attainable = 0.12\n", accelerators=1)


def test_given_figures_are_never_overruled():
    """A measured MFU stays as it is, and says that it was measured."""
    found = submitted("mfu = 0.4\nlink_stall = 0.1\nmeasured = true\n" + LLAMA)
    assert found == Efficiency(400_000, 0, 100_000, Confidence.MEASURED)
    assert submitted("mfu = 0.4").confidence is Confidence.MODELLED


def test_the_model_named_also_prices_a_worse_place():
    """Its parameters, layers and hidden size are in the shape that the scheduler reads."""
    _, parsed = one(LLAMA)
    stated = next(iter(generate.stream(parsed))).job.shape.parallelism
    assert stated is not None
    assert (stated.layers, stated.hidden) == (80, 8192)
    assert stated.parameters_m == pytest.approx(70_500, rel=0.01)


@pytest.mark.parametrize(
    ("words", "kind", "said", "helps"),
    [
        ('computes = { model = "llama-9" }', "H100", "llama-9", "did you mean"),
        (LLAMA, "abacus", "no GPU model called `abacus`", ""),
        (LLAMA.replace("batch = 64", "batch = 7"), "H100", "batch of 7", "would"),
        (LLAMA.replace("pipeline = 2", "pipeline = 3"), "H100", "no multiple", "24 accelerators"),
        (LLAMA.replace("tensor = 8", "tensor = 16"), "H100", "16 tensor ranks", "--tp"),
        ('computes = { model = "llama-3-70b" }', "H100", "`batch` and a `sequence`", "parallelism"),
        ("computes = { samples_per_s = 10 }", "H100", "no model", "gflop_per_sample"),
        (LLAMA.replace("70b", '70b", precision = "fp8'), "A100", "no fp8 rate", "bf16"),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_is_refused(words: str, kind: str, said: str, helps: str):
    """By the file, the job and the field, with what would work."""
    if "tensor = 16" in words:
        words = words.replace("llama-3-70b", "qwen-2.5-7b")
    with pytest.raises(SpecError) as error:
        one(words, kind)
    assert said in error.value.message
    assert helps in (error.value.hint or "")
    assert "computes" in error.value.message


def test_the_example_shows_what_nobody_typed_in():
    """Communication, host and what is below peak are there, modelled, named by their jobs; the
    measured workload stays measured, its split below peak unknown; and every paid milli·ms is
    in one bucket.
    """
    parsed, world, kept = fleet_spec.load(EXAMPLE), World(), Kept()
    ledger = reader.Ledger(parsed.policy)
    Loop(world, parsed.policy, Twin.from_spec(parsed), kept, [ledger]).run()
    found = statement.Statement(ledger)
    found.check()
    account = found.total()
    for bucket in (Bucket.LINKS, Bucket.HOST, Bucket.USEFUL):
        assert account.milli_ms[bucket] > account.paid_milli_ms // 100, bucket
        known = found.confidence_of(bucket)
        assert known[Confidence.MODELLED] > known[Confidence.MEASURED] > 0, bucket
    assert set(found.confidence_of(Bucket.BELOW_ROOF)) == {Confidence.MODELLED}
    assert Confidence.MEASURED in found.confidence_of(Bucket.BELOW_PEAK)
    assert account.milli_ms[Bucket.UNKNOWN] == 0
    assert sum(account.milli_ms) == account.paid_milli_ms
    assert found.jobs_of(Bucket.HOST, 1)[0][0].startswith("photos")
    assert found.jobs_of(Bucket.LINKS, 1)[0][0] in ("pretrain-70b", "experts", "chat-1")


def test_sizes_by_chance_that_do_not_divide_stay_unknown():
    """Of a preset's sizes, those that hold whole tensor groups are modelled, others unknown."""
    words = FLEET.split("[[job]]", maxsplit=1)[0].format(kind="H100") + (
        '[[workload]]\nname = "w"\nteam = "a"\nper_day = 300\npreset = "philly"\n'
        "parallelism = { tensor = 4, sequence = 4096, batch = 64 }\n"
        'computes = { model = "llama-3-8b" }\n'
    )
    found = {
        (arrival.job.shape.total_milli // 1000, arrival.job.efficiency.confidence)
        for arrival in generate.stream(fleet_spec.parse(words))
    }
    assert (8, Confidence.MODELLED) in found
    assert (1, Confidence.UNKNOWN) in found
