"""Before submitting, and when: runs now, waits about so long, never fits, or nobody can say."""

from collections.abc import Callable

import msgspec
import pytest

from tests.builders import (
    DEFAULTS,
    beat,
    cancel,
    contract,
    finish,
    fleet,
    job,
    lose_node,
    move_node,
    pass_ms,
    submit,
    team,
)
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold
from tidemill.explain.answers import Forecast
from tidemill.explain.draws import Draw
from tidemill.explain.durations import Lengths
from tidemill.explain.play_forward import BOOT_MS
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS, ONE_PPM, duration_text
from tidemill.model.policy import Policy
from tidemill.model.states import Confidence, JobClass, NodeState, Terms
from tidemill.model.world import World


def seasoned(ratios: list[float], nodes: int = 2) -> World:
    """A fleet on which jobs with an estimate of ten hours took these parts of it."""
    world = fleet(nodes=nodes)
    for i, ratio in enumerate(ratios):
        submit(world, job(f"done{i}", gpus=1, estimate_ms=10 * HOUR_MS))
        beat(world)
        pass_ms(world, int(ratio * 10 * HOUR_MS))
        finish(world, f"done{i}")
    return world


def test_runs_now_names_the_nodes():
    """A job that fits is told where it would run, and nothing is submitted."""
    world = fleet(nodes=2)
    before = snapshot.digest(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Forecast) == found
    assert (found.verdict, found.nodes) == ("now", ("c-0", "c-1"))
    assert found.words == "job `t5` runs now on `c-0` and `c-1`"
    assert snapshot.digest(world) == before


@pytest.mark.parametrize(
    ("asks", "constraint", "nearest"),
    [
        ({"gpus": 16, "per_node": 16}, "accelerators on one node", "request 2 replicas of 8 GPUs"),
        ({"gpus": 12, "per_node": 12}, "accelerators on one node", "replicas of 6 GPUs instead"),
        ({"gpus": 80}, "gang", "request at most 4 replicas of 8 GPUs"),
        ({"kinds": ["B200"]}, "kind", "request `H100`"),
        (
            {"labels": {"rack": "z"}},
            "label",
            "change or drop the label: no node has a label `rack`",
        ),
        ({"cpu_milli": 10**9}, "CPU on one node", "request at most 1,000 cores per replica"),
        (
            {"gpus": 25, "per_node": 5, "team": "b"},
            "limit",
            "at most 20, or raise the maximum quota of `b`",
        ),
    ],
)
def test_never_fits_has_a_certificate(asks: dict, constraint: str, nearest: str):
    """What can never fit is refused at once, with the constraint and the nearest that would."""
    world = fleet(nodes=4, teams=[team("a"), team("b", limit=20)])
    if constraint == "limit":
        asks["per_node"] = 1
    found = explain.fit(world, DEFAULTS, job("t5", **asks))
    assert found.verdict == "never"
    assert found.certificate is not None
    assert (found.certificate.constraint, found.wait) == (constraint, None)
    assert found.certificate.asked > found.certificate.most
    assert nearest in found.certificate.nearest
    assert found.certificate.words in found.words


def test_the_band_comes_from_what_ended_here():
    """Jobs here took 10% to 100% of their estimate; so does the one in the way.

    The middle is half of its estimate; the band reaches further late than early, as a job may come
    or a node may fail that no simulation knows of.
    """
    world = seasoned([i / 20 for i in range(1, 21)])
    submit(world, job("r0", gpus=16, estimate_ms=20 * HOUR_MS))
    beat(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16, estimate_ms=HOUR_MS))
    assert (found.verdict, found.cause, found.samples) == ("waits", "busy", 20)
    assert found.ratios_ppm == (100_000, 500_000, 900_000)
    assert found.wait is not None
    hours = [(ms or 0) / HOUR_MS for ms in msgspec.structs.astuple(found.wait)]
    assert 1 < hours[0] < 5
    assert 8 < hours[1] < 12
    assert 18 < hours[2] < 48
    assert found.confidence is Confidence.MODELLED
    early, about, late = (duration_text(ms or 0) for ms in msgspec.structs.astuple(found.wait))
    text = f"waits about {about} (p10 to p90: {early} to {late}), because not enough is free: 16"
    assert text in found.words
    assert "of 20 ended jobs" in found.method


class Always(Draw):
    """One future of a million: the share of its like than which every job takes longer."""

    def of_job(self, j: int) -> int:
        """The same for all."""
        return self.future


def test_a_job_past_its_estimate_is_not_about_to_end():
    """What has outrun most others is compared with those that ran even longer."""
    world = seasoned([0.5] * 10 + [1.5] * 10)
    lengths = Lengths(world)
    submit(world, job("r0", gpus=16, estimate_ms=10 * HOUR_MS))
    j = world.job_number["r0"]
    assert lengths.left_ms(world, j, 0, Always(100_000, ONE_PPM)) == 5 * HOUR_MS
    assert lengths.left_ms(world, j, 6 * HOUR_MS, Always(100_000, ONE_PPM)) == 9 * HOUR_MS
    assert lengths.left_ms(world, j, 20 * HOUR_MS, Always(500_000, ONE_PPM)) == 10 * HOUR_MS, (
        "as long again, halved"
    )


def test_those_that_still_run_count_as_longer():
    """Twenty jobs ended after an hour and twenty have run for eight: an hour is not the usual.

    Before, only those that had ended were asked, which are the short ones.
    """
    world = fleet(nodes=5)
    submit(world, *(job(f"long{i}", gpus=1) for i in range(20)))
    submit(world, *(job(f"short{i}", gpus=1) for i in range(20)))
    beat(world)
    pass_ms(world, HOUR_MS)
    for i in range(20):
        finish(world, f"short{i}")
    pass_ms(world, 7 * HOUR_MS)
    submit(world, job("new", gpus=1))
    j, lengths = world.job_number["new"], Lengths(world)
    assert lengths.left_ms(world, j, 0, Always(400_000, ONE_PPM)) == HOUR_MS
    longer_ms = lengths.left_ms(world, j, 0, Always(600_000, ONE_PPM))
    assert longer_ms is not None
    assert longer_ms > 8 * HOUR_MS


def after_five(end: Callable[[World, str], None]) -> World:
    """A node on which five jobs, one after the other, ran for two hours and ended so."""
    world = fleet(nodes=1)
    for i in range(5):
        submit(world, job(f"done{i}", gpus=8))
        beat(world)
        pass_ms(world, 2 * HOUR_MS)
        end(world, f"done{i}")
    return world


def test_a_job_that_was_cancelled_ended():
    """Devices come back however a job ends; before, only those that finished were asked."""
    world = after_five(cancel)
    submit(world, job("next", gpus=8))
    assert (
        Lengths(world).left_ms(world, world.job_number["next"], 0, Always(500_000, ONE_PPM))
        == 2 * HOUR_MS
    )


def test_few_samples_are_owned_up_to():
    """Below 20 ended jobs the ratio is assumed, and the forecast says so."""
    world = seasoned([1.0] * 3)
    submit(world, job("r0", gpus=16, estimate_ms=10 * HOUR_MS))
    beat(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16))
    assert found.wait is not None
    assert found.samples == 3
    assert found.wait.p50_ms is not None
    assert 4 < found.wait.p50_ms / HOUR_MS < 6
    assert any("only 3 of the ended jobs had an estimate" in text for text in found.assumptions)


def test_without_an_estimate_its_like_stand_for_it():
    """A running job without an estimate takes as long as ended jobs of its class and size."""
    world = after_five(finish)
    submit(world, job("r0", gpus=8))
    beat(world)
    pass_ms(world, HOUR_MS)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=8))
    assert found.wait is not None
    assert (found.verdict, found.wait.p50_ms) == ("waits", HOUR_MS)
    assert any("1 active job without an estimate" in text for text in found.assumptions)


def test_unknown_is_not_a_number():
    """A service without an estimate, like none that finished, makes the start unknown."""
    world = fleet(nodes=1)
    submit(world, job("service", gpus=8, kind=JobClass.INFERENCE))
    beat(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=8))
    assert (found.verdict, found.confidence) == ("unknown", Confidence.UNKNOWN)
    assert found.wait is not None
    assert found.wait.p50_ms is None
    assert found.words.startswith("when job `t5` starts is unknown: it waits for 1 job")
    assert found.assumptions[-1].startswith("1 job without an estimate and unlike any that ended")
    assert not any("are used instead" in text for text in found.assumptions), "of none like it"


def test_later_than_the_horizon_is_not_never():
    """What starts after the horizon is said to be later."""
    world = seasoned([1.0] * 20)
    submit(world, job("r0", gpus=16, estimate_ms=90 * DAY_MS))
    beat(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16))
    assert (found.verdict, found.wait) == ("later", explain.answers.Band(None, None, None))
    assert "does not start within 30d" in found.words


def test_a_band_may_be_open_at_its_end():
    """When only the bad future is past the horizon, the band says more than 30 days."""
    world = seasoned([0.1] * 2 + [0.5] * 10 + [1.0] * 8)
    submit(world, job("r0", gpus=16, estimate_ms=40 * DAY_MS))
    beat(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16))
    assert found.wait is not None
    assert (found.verdict, found.wait.p90_ms) == ("waits", None)
    assert "to more than 30d)" in found.words


def test_the_queue_ahead_is_waited_for():
    """A waiting job starts after those ahead of it have run, by the same scheduler."""
    world = seasoned([1.0] * 20)
    submit(world, job("r0", gpus=16, estimate_ms=2 * HOUR_MS))
    beat(world)
    submit(world, job("w0", gpus=16, estimate_ms=3 * HOUR_MS), job("w1", gpus=16, startup_ms=1))
    beat(world)
    first = explain.eta(world, DEFAULTS, world.job_number["w0"])
    second = explain.eta(world, DEFAULTS, world.job_number["w1"])
    assert first.wait is not None
    assert second.wait is not None
    assert (first.wait.p50_ms, second.wait.p50_ms) == (2 * HOUR_MS, 5 * HOUR_MS)
    assert second.answer is not None
    assert second.answer.jobs_ahead == 1


def test_room_that_is_being_made_is_a_short_wait():
    """An eviction makes room within the grace, whatever the victim's estimate is."""
    world = seasoned([1.0] * 20)
    submit(world, job("low", gpus=16, estimate_ms=9 * DAY_MS))
    beat(world)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16, priority=5))
    assert found.wait is not None
    assert (found.cause, found.wait.p90_ms) == ("promised", 30_000)


def test_a_scale_up_is_waited_for():
    """On-demand nodes are launched by the same rule as in the fleet, and then boot."""
    world = fleet(contract("c", gpus=8))
    fold(world, ev.ContractSigned(0, contract("od", gpus=8, terms=Terms.ON_DEMAND)))
    fold(world, ev.ContractStarted(0, 1))
    submit(world, job("r0", gpus=8, estimate_ms=DAY_MS))
    beat(world)
    found = explain.fit(world, Policy(scale_up_after_ms=5 * MINUTE_MS), job("t5", gpus=8))
    assert found.wait is not None
    assert found.wait.p50_ms is not None
    assert 5 * MINUTE_MS <= found.wait.p50_ms - BOOT_MS < 6 * MINUTE_MS


def test_nodes_in_repair_come_back():
    """A gang that needs the sick node waits for its repair; the band is that of known repairs."""
    world = fleet(nodes=2)
    lose_node(world, 1)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=16))
    assert found.wait is not None
    assert (found.verdict, found.cause) == ("waits", "not_enough_ready")
    assert found.wait.p10_ms is not None
    assert 14 * MINUTE_MS + BOOT_MS < found.wait.p10_ms < DAY_MS // 2
    assert found.wait.p50_ms == 85 * DAY_MS // 100 + BOOT_MS
    assert any("1 node to come" in text for text in found.assumptions)


def test_a_contract_that_starts_later_is_part_of_the_future():
    """What is signed for tomorrow runs tomorrow."""
    world = fleet(contract("c", gpus=8), contract("d", gpus=8, kind="A100", start_ms=DAY_MS))
    found = explain.fit(world, DEFAULTS, job("t5", gpus=8, kinds=["A100"]))
    assert found.wait is not None
    assert (found.cause, found.wait.p50_ms) == ("nothing_launched", DAY_MS + 2 + BOOT_MS)


def test_a_cordon_that_nobody_lifts_ends_the_forecast():
    """A cordoned node comes back when somebody says so; nobody can say when."""
    world = fleet(nodes=1)
    move_node(world, 0, NodeState.CORDONED)
    found = explain.fit(world, DEFAULTS, job("t5", gpus=8))
    assert (found.verdict, found.cause) == ("later", "nothing_ready")


def test_an_unknown_team_is_the_asker_s_mistake():
    """A job of a team that does not exist is refused with the teams that do."""
    with pytest.raises(SpecError, match="belongs to team `x`; known teams: `a`"):
        explain.fit(fleet(), DEFAULTS, job("t5", team="x"))


def test_a_broken_row_is_the_asker_s_mistake():
    """A row that the fold would refuse is refused with the same words."""
    with pytest.raises(SpecError, match="a fraction is of one device"):
        explain.fit(fleet(), DEFAULTS, job("t5", gpus=2, milli=500))


def test_a_name_that_is_taken_may_be_asked_about():
    """Asking whether one more of a running job would fit is no error."""
    world = fleet(nodes=2)
    submit(world, job("t5", gpus=8))
    beat(world)
    assert explain.fit(world, DEFAULTS, job("t5", gpus=8)).verdict == "now"


def test_a_started_job_has_no_forecast():
    """A job that runs is not forecast; it says where it is."""
    world = fleet(nodes=1)
    submit(world, job("r0", gpus=8))
    beat(world)
    found = explain.eta(world, DEFAULTS, 0)
    assert (found.verdict, found.wait) == ("started", None)
    assert "does not wait" in found.words


def test_a_job_that_is_due_before_it_is_counted_in_what_fit_says():
    """Beside a job that the next cycle places, `fit` said "2 of 2 replicas would fit now" and
    "not enough is free". The numbers are those that the next cycle leaves.
    """
    world = fleet(nodes=4)
    submit(world, job("due", gpus=24))
    found = explain.fit(world, DEFAULTS, job("asked", gpus=16))
    assert found.answer is not None
    assert found.answer.cause == "partial_gang"
    facts = {fact.name: fact.value for fact in found.answer.evidence}
    assert "the next cycle places `due` before it (24 GPUs, no longer free for it)" in found.words
    beat(world)
    submit(world, job("asked", gpus=16))
    later = {f.name: f.value for f in explain.why(world, DEFAULTS, 1).evidence}
    for name in ("replicas that fit", "free"):
        assert facts[name] == later[name], name
