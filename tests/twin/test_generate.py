"""Generated work looks like what was published, and like what the file asks for."""

import numpy as np
import pytest

from tidemill.model.errors import SpecError
from tidemill.model.measures import DAY_MS, HOUR_MS, ONE_PPM, SECOND_MS
from tidemill.model.states import JobClass
from tidemill.twin import arrival_rate, durations, generate, offered_load, presets, sizes
from tidemill.twin.arrivals import Ending, Spell, Tide
from tidemill.twin.mix import JobMix
from tidemill.twin.spec import fleet_spec
from tidemill.twin.spec.tables import ArrivalRhythm
from tidemill.twin.spec.words import Fraction
from tidemill.twin.streams import Streams
from tidemill.twin.traces import acme

BASE = """
[twin]
seed = 5
horizon = "28d"
[[contract]]
name = "h"
kind = "H100"
count = 256
usd_per_hour = 2
[[team]]
name = "a"
"""


def workload(**fields):
    rows = {"name": '"w"', "team": '"a"', "per_day": "100", "preset": '"helios"'} | fields
    text = "\n".join(f"{key} = {value}" for key, value in rows.items())
    return fleet_spec.parse(f"{BASE}\n[[workload]]\n{text}\n")


def jobs(**fields):
    return list(generate.stream(workload(**fields)))


@pytest.mark.parametrize("name", presets.PRESETS)
def test_20_000_jobs_of_a_preset_have_the_published_figures(name):
    """Median run time within 5 %, mean run time and mean size within 15 %, largest not exceeded.

    A mean of 20,000 draws with such tails has a standard error of 4 to 7 %.
    """
    mix, known = presets.mix(name), presets.PRESETS[name].published
    index, run_ms = mix.draw(Streams(1).of(name), 20_000)
    milli = np.array(mix.sizes.milli)[index]
    assert np.median(run_ms) / SECOND_MS == pytest.approx(known.median_run_s, rel=0.05)
    assert run_ms.mean() / SECOND_MS == pytest.approx(known.mean_run_s, rel=0.15)
    assert run_ms.max() <= known.longest_run_s * SECOND_MS
    assert milli.mean() / 1000 == pytest.approx(known.mean_gpus, rel=0.15)
    assert milli.max() <= known.largest_gpus * 1000
    assert np.median(milli) == (500 if name == "pai" else 1000)


@pytest.mark.parametrize("name", ["philly", "helios", "seren", "kalos"])
def test_large_jobs_run_longer_as_published(name):
    """The coupling meets the published accelerator time of the average job within 1 %."""
    known = presets.PRESETS[name].published
    assert presets.mix(name).mean_milli_ms() / 1e6 == pytest.approx(known.mean_gpu_s, rel=0.01)


def test_the_quadrature_agrees_with_drawing():
    """The expected accelerator time is what half a million draws give, within 2 %."""
    times = durations.fit(600_000, 3_600_000, 36_000_000)
    mix = JobMix(sizes.halving(0.6, 4.0, 64), times, 0.5)
    index, run_ms = mix.draw(Streams(2).of("mix"), 500_000)
    drawn = float((np.array(mix.sizes.milli)[index] * run_ms).mean())
    assert mix.mean_milli_ms() == pytest.approx(drawn, rel=0.02)


def test_the_presets_quote_the_published_table(traces):
    """Every figure of every preset stands in the table that it quotes."""
    for row in acme.summaries(traces / "acme" / "cluster_summary.csv"):
        known = presets.PRESETS[row.name.lower()].published
        assert known.median_run_s == row.median_run_s
        assert known.mean_run_s == row.mean_run_s
        assert known.longest_run_s == row.longest_run_s
        assert known.mean_gpus == row.mean_gpus
        assert known.largest_gpus == row.largest_gpus
        assert known.cancel_share == (row.cancel_share or 0.0)
        assert known.fail_share == (row.fail_share or 0.0)
        assert known.mean_gpu_s == pytest.approx(row.mean_gpu_s or 0.0, abs=0.01)


@pytest.mark.parametrize(
    ("median", "mean", "longest"),
    [(60, 61, 10_000), (60, 150, 10_000), (600, 36_000, 600_000), (36_000, 108_000, 864_000)],
)
def test_a_fit_has_the_median_and_mean_it_was_asked_for(median, mean, longest):
    """Slightly or very heavy tails, cut early or late: median and mean within 1 %."""
    times = durations.fit(median * 1000, mean * 1000, longest * 1000)
    drawn = times.at(Streams(3).of("fit").standard_normal(200_001)) / 1000
    assert np.median(drawn) == pytest.approx(median, rel=0.02)
    assert times.mean_ms() / 1000 == pytest.approx(mean, rel=0.01)
    assert drawn.max() <= longest * 1.0001


def test_equal_median_and_mean_are_always_the_same_time():
    """No spread was asked for, so there is none."""
    times = durations.fit(5000, 5000, 9000)
    assert np.rint(times.at(np.array([-3.0, 0.0, 3.0]))).tolist() == [5000, 5000, 5000]


def test_sizes_with_a_mean_are_powers_of_two():
    """A share of ones and doublings beyond, with the mean that was asked for."""
    found = sizes.halving(0.7, 3.716, 2048)
    assert found.milli == tuple(1000 * 2**k for k in range(12))
    assert found.mean_milli() == pytest.approx(3716)
    assert sum(found.shares) == pytest.approx(1)
    with pytest.raises(SpecError, match="no sizes up to 8"):
        sizes.halving(0.9, 100, 8)


def test_no_gang_is_larger_than_half_the_fleet_or_the_limit():
    """Sizes above what may run beside others are cut to the largest power of two that may."""
    assert max(a.job.shape.total_milli for a in jobs(preset='"kalos"', per_day="500")) == 128_000
    text = BASE.replace('name = "a"', 'name = "a"\nlimit = { H100 = 24 }')
    text += '[[workload]]\nname = "w"\nteam = "a"\nper_day = 500\npreset = "kalos"\n'
    found = list(generate.stream(fleet_spec.parse(text)))
    assert max(a.job.shape.total_milli for a in found) == 16_000


def test_arrivals_follow_the_day_and_the_week_and_keep_their_average():
    """Most at the peak hour, least twelve hours later, fewer at the weekend; 500 a day overall."""
    shape = ArrivalRhythm(swing=Fraction(800_000), peak_hour=14, weekend=Fraction(250_000))
    at_ms = arrival_rate.times_ms(Streams(4).of("x"), 500.0, (0, 28 * DAY_MS), shape)
    assert len(at_ms) == pytest.approx(500 * 28, rel=0.03)
    assert (np.diff(at_ms) >= 0).all()
    by_hour = np.bincount(at_ms // HOUR_MS % 24, minlength=24)
    assert by_hour[13:16].sum() / by_hour[1:4].sum() == pytest.approx(1.8 / 0.2, rel=0.25)
    by_day = np.bincount(at_ms // DAY_MS % 7, minlength=7)
    assert by_day[5:].mean() / by_day[:5].mean() == pytest.approx(0.25, rel=0.15)


def test_owners_overestimate_in_whole_hours_and_some_say_nothing():
    """Estimates: 30 % missing, whole hours, most above the truth and some below."""
    found = jobs(estimate="{ median = 2.0, sigma = 0.8, missing = 0.3 }", per_day="500")
    given = [a for a in found if a.job.estimate_ms]
    assert 1 - len(given) / len(found) == pytest.approx(0.3, abs=0.02)
    assert all(a.job.estimate_ms % HOUR_MS == 0 for a in given)
    long = [a for a in given if a.work_ms > 5 * HOUR_MS]
    over = sum(a.job.estimate_ms > a.work_ms for a in long) / len(long)
    assert 0.75 < over < 0.92


def test_endings_come_at_their_published_or_given_shares():
    """Helios: 15.5 % fail and 22.1 % are cancelled; a file may say otherwise."""
    found = [a.ending for a in jobs(per_day="500")]
    assert found.count(Ending.FAILED) / len(found) == pytest.approx(0.155, abs=0.015)
    assert found.count(Ending.CANCELLED) / len(found) == pytest.approx(0.221, abs=0.015)
    assert {a.ending for a in jobs(fail="0.0", cancel="0.0")} == {Ending.FINISHED}
    crashing = [a for a in jobs(crash="0.5") if a.crashes_ms]
    assert len(crashing) == pytest.approx(1400, rel=0.1)
    assert all(0 < a.crashes_ms[0] <= a.work_ms + 1 for a in crashing)


def test_equal_shapes_are_one_object():
    """A thousand jobs share a handful of shapes and efficiencies."""
    found = jobs(mfu="0.3", mfu_spread="0.05")
    assert len({id(a.job.shape) for a in found}) == len({a.job.shape for a in found}) < 12
    assert len({id(a.job.efficiency) for a in found}) < 40
    mean = np.mean([a.job.efficiency.mfu_ppm for a in found]) / ONE_PPM
    assert mean == pytest.approx(0.3, abs=0.01)


def test_rows_are_made_only_when_asked_for():
    """The stream of a year of jobs is there at once; a job exists when it is taken."""
    stream = generate.stream(workload(per_day="20000"))
    first = next(stream)
    assert first.job.name == "w-00000"
    assert first.at_ms < HOUR_MS


def test_changing_one_workload_leaves_the_others_as_they_were():
    """Each workload draws from its own streams."""
    other = '[[workload]]\nname = "o"\nteam = "a"\nper_day = {}\npreset = "philly"\n'
    one = BASE + '[[workload]]\nname = "w"\nteam = "a"\nper_day = 50\npreset = "seren"\n'
    told = [
        [
            a
            for a in generate.stream(fleet_spec.parse(one + other.format(n)))
            if a.job.name[0] == "w"
        ]
        for n in (5, 50)
    ]
    assert told[0] == told[1]


def test_services_have_tides_and_notebooks_have_spells():
    """The load that a class of jobs has is kept beside it, in a few variants."""
    tides = {a.activity for a in jobs(**{"class": '"inference"', "tide": "{ peak = 0.8 }"})}
    assert len(tides) == 8
    assert all(isinstance(tide, Tide) for tide in tides)
    books = jobs(
        **{"class": '"interactive"', "active": '{ median = "1h", mean = "2h" }', "busy": "0.3"}
    )
    spells = [a.activity for a in books]
    assert all(isinstance(spell, Spell) and spell.busy_ppm == 300_000 for spell in spells)
    assert np.median([s.active_ms for s in spells]) == pytest.approx(HOUR_MS, rel=0.1)
    assert {a.job.shape.kind for a in books} == {JobClass.INTERACTIVE}


def test_single_jobs_come_at_their_time_and_in_copies():
    """Copies are numbered, others keep their name; both are merged with the rest by time."""
    text = BASE + '[[job]]\nname = "late"\nteam = "a"\nwork = "1h"\nat = "3h"\n'
    text += '[[job]]\nname = "s"\nteam = "a"\nwork = "1h"\ncopies = 2\nfraction = 0.25\n'
    found = list(generate.stream(fleet_spec.parse(text)))
    assert [(a.at_ms, a.job.name) for a in found] == [(0, "s-1"), (0, "s-2"), (3 * HOUR_MS, "late")]
    assert found[0].job.shape.total_milli == 250


def test_the_load_of_a_file_is_what_its_jobs_ask_for():
    """64 accelerators of 256 for half of the time are an eighth."""
    text = BASE + '[[job]]\nname = "half"\nteam = "a"\nwork = "14d"\naccelerators = 64\n'
    found = offered_load.measure(fleet_spec.parse(text))
    assert found.share == pytest.approx(1 / 8)
    assert found.hourly[0] == pytest.approx(1 / 4)
    assert found.hourly[-1] == 0
    assert (found.jobs, found.accelerators) == (1, {"H100": 256})


def test_coupling_keeps_sizes_and_times():
    """Whatever the coupling, each of the two keeps its own distribution."""
    base = presets.mix("seren")
    for coupling in (0.0, 0.9):
        mix = JobMix(base.sizes, base.durations, coupling)
        index, run_ms = mix.draw(Streams(6).of("c"), 100_000)
        assert (index == 0).mean() == pytest.approx(base.sizes.shares[0], abs=0.01)
        assert np.median(run_ms) == pytest.approx(122_000, rel=0.03)
