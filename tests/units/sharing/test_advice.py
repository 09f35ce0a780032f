"""The mode advisor: exclusive unless sharing is safe and gains."""

from tidemill.units.catalogue.book import Catalogue
from tidemill.units.sharing import advice, known, slices
from tidemill.units.sharing.advice import Needs
from tidemill.units.sharing.laws import Mode
from tidemill.units.sharing.tenants import Tenant

BOOK = Catalogue()
H200 = BOOK.part("h200")
SERVE, TRAIN, DECODE, SMALL = (
    known.BY_NAME[k] for k in ("serve", "train", "decode", "small-kernels")
)


def option(found: advice.SharingAdvice, mode: Mode) -> advice.ModeOption:
    """What was said of a mode."""
    return next(o for o in found.options if o.mode is mode)


def test_nothing_gains_where_both_fill_one_axis():
    """Two trainers do in turns what they do together: each gets a device of its own."""
    found = advice.advise((TRAIN, TRAIN), H200, Needs())
    assert found.mode in (Mode.EXCLUSIVE, Mode.MPS)
    assert "1.1 is worth it" in option(found, Mode.TIME_SLICE).against
    assert option(found, Mode.MPS).gain < 1.15


def test_strangers_get_walls():
    """Who does not trust the other shares neither memory nor faults: MIG, or nothing."""
    found = advice.advise((SERVE, SMALL), H200, Needs(trusts=False))
    assert found.mode is Mode.MIG
    assert "do not trust" in option(found, Mode.MPS).against
    v100 = BOOK.part("v100-sxm2-32")
    assert advice.advise((SERVE, SMALL), v100, Needs(trusts=False)).mode is Mode.EXCLUSIVE


def test_a_promise_of_latency_rules_modes_out():
    """A p99 of 1 ms for the server rules out every mode in which it waits for the trainer."""
    found = advice.advise((SERVE, TRAIN), H200, Needs(p99_ms=1.0))
    assert "p99 of `serve` would be" in option(found, Mode.TIME_SLICE).against
    assert "p99 of `serve` would be" in option(found, Mode.MPS).against
    assert found.mode is Mode.MIG
    assert option(found, Mode.MIG).estimates[0].keeps == 1


def test_small_kernels_gain_from_mps():
    """Two launchers of small kernels leave each other room: nearly two devices' worth on one."""
    found = advice.advise((SERVE, SERVE), BOOK.part("v100-sxm2-32"), Needs())
    assert found.mode is Mode.MPS
    assert option(found, Mode.MPS).gain > 1.7
    assert option(found, Mode.TIME_SLICE).gain < 1.1


def test_what_does_not_fit_is_not_shared():
    """Together they hold more memory than there is, or no two instances hold them."""
    big = Tenant(name="big", compute=0.1, bandwidth=0.1, memory_gb=100)
    found = advice.advise((big, big), H200, Needs())
    assert found.mode is Mode.EXCLUSIVE
    assert "142% of the memory" in option(found, Mode.MPS).against
    assert "no two instances" in option(found, Mode.MIG).against


def test_unknown_rhythm_promises_no_p99():
    """A tenant known by its shares alone has no p99, and none is made up."""
    flow = Tenant(name="flow", compute=0.2, bandwidth=0.1, memory_gb=10)
    found = advice.advise((flow, TRAIN), H200, Needs(p99_ms=5))
    assert "how often `flow` runs is not known" in option(found, Mode.MPS).against
    assert all(e.p99_ms is None for e in option(found, Mode.MPS).estimates)


def test_instances_are_legal_and_the_best_for_the_worse_off():
    """A decoder beside a small one gets half the memory axis; both sit in instances that fit."""
    found = slices.divide((DECODE, SMALL), H200)
    assert found is not None
    assert found.keeps[1] == 1
    assert found.keeps[0] == 0.5 / DECODE.bandwidth
    assert slices.divide((DECODE, SMALL), BOOK.part("v100-sxm2-32")) is None


def test_a_tenant_on_another_part():
    """On an H100 a decoder takes longer as its bandwidth is less, a trainer as long as before."""
    h100 = BOOK.part("h100")
    decode, train = known.on(DECODE, h100), known.on(TRAIN, h100)
    assert decode.rhythm is not None
    assert DECODE.rhythm is not None
    assert decode.rhythm.device_ms / DECODE.rhythm.on_device_ms > 1.4
    assert train.rhythm is not None
    assert TRAIN.rhythm is not None
    assert abs(train.rhythm.period_ms / TRAIN.rhythm.period_ms - 1) < 0.01
    assert 0 < decode.bandwidth <= 1
