"""Whom the cluster lets nobody stop now."""

from tests.builders import contract, fleet, job, submit, team
from tests.live.kubernetes import made
from tidemill.journal import scheduled
from tidemill.live.kubernetes import pods
from tidemill.live.kubernetes.scheduling.sparing import Spared
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.live.kubernetes.watching import kinds

KIND = kinds.PODS


def test_a_job_is_spared_after_a_refusal_until_it_is_over():
    """For a while nobody asks again; of a job whose pods are gone nothing is remembered."""
    view = ClusterView("tidemill")
    pod = pods.read(made.pod("train", spec={"schedulerName": "tidemill"}))
    view.take(KIND, ("ml", "train"), pod, False)
    [unit] = view.units()
    spared = Spared(view)
    spared.refused(unit, "the API server")
    spared.look([unit], ())
    assert spared.jobs(lambda _: 7) == {7: "the API server"}
    view.take(KIND, ("ml", "train"), pod.deleted(9), True)
    spared.look([unit], ())
    assert spared.jobs(lambda _: 7) == {}


def test_what_keeps_jobs_is_read_back():
    """Also from journals of before, which say whom alone."""
    world = fleet(contract(gpus=8), teams=[team("a")])
    submit(world, job("a"), job("b"))
    scheduled.put_back(world, scheduled.facts((), {"a": "the API server", "gone": "x"}), "j")
    assert (world.kept, world.keepers) == (frozenset({0}), {0: "the API server"})
    scheduled.put_back(world, {scheduled.KEPT: '["b"]'}, "j")
    assert (world.kept, world.keepers) == (frozenset({1}), {1: ""})
