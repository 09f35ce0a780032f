"""A folder with the exports of several moments: hours by hand, and what nobody saw."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import listed, node, pod
from tidemill import api
from tidemill.ledger import fixes
from tidemill.ledger.buckets import Bucket
from tidemill.live.history import events
from tidemill.live.kubernetes import translate
from tidemill.live.kubernetes.translate import KubernetesPast
from tidemill.live.prices.rules import flat
from tidemill.model.states import JobState

Object = dict[str, Any]
HOUR = 3600
SYSTEM = (
    pod("dns", {}, on="n1", created=0, namespace="kube-system"),
    pod("exporter", {}, on="n1", created=0, namespace="monitoring"),
)
"""An export with pods of two namespaces is of all."""


def read(folder: Path, **files: Object) -> KubernetesPast:
    """What these files, named so in a folder, tell together."""
    for name, told in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(json.dumps(told))
    return translate.read([folder])


def books(past: KubernetesPast) -> api.Run:
    """From ``made.BEGIN`` to the youngest time in the files, at $2 per GPU-hour."""
    history = events.build(
        past.attempts, past.nodes, flat({"": 2_000_000}), made.BEGIN_MS, past.seen_ms, past.queues,
        shapes=past.shapes,
    )  # fmt: skip
    return api.keep_history(history)


def hours(run: api.Run) -> dict[Bucket, float]:
    """GPU-hours by bucket."""
    found = amounts(run.statement, "bucket")
    return {Bucket(key[0]): milli / 1000 / 3_600_000 for key, milli in found.items() if milli}


def state(run: api.Run, job: str) -> JobState:
    """What became of a job."""
    return JobState(run.world.jobs.state[run.world.job_number[job]])


def export(at: int, *objects: Object, nodes: tuple[str, ...] = ("n1",)) -> Object:
    """`kubectl get nodes,pods -A -o json` at so many hours."""
    return listed(*(node(name, at=at * HOUR) for name in nodes), *SYSTEM, *objects)


def running(name: str, gpus: int, since: int, *, on: str = "n1", **rest: Any) -> Object:
    """A pod that was made and runs since so many hours."""
    return pod(name, gpus, on=on, created=since * HOUR, **rest)


def test_a_pod_that_a_later_export_lacks_neither_holds_nor_waits(tmp_path: Path):
    """b runs from 2 h and is shown at 6 h; at 12 h c, on the same GPUs since 8 h: 32 h each.

    The 16 h between are not observed. w waited until it was last shown.
    """
    past = read(
        tmp_path,
        one=export(6, running("b", 8, 2), pod("w", 8, created=3 * HOUR, message="busy")),
        two=export(12, running("c", 8, 8)),
    )
    run = books(past)
    assert hours(run) == {
        Bucket.NO_DEMAND: 16, Bucket.UNKNOWN: 64, Bucket.NOT_OBSERVED: 16,
    }  # fmt: skip
    assert state(run, "ml/w") is state(run, "ml/b") is JobState.CANCELLED
    assert state(run, "ml/c") is JobState.RUNNING
    assert run.world.jobs.since_ms[run.world.job_number["ml/w"]] == 6 * 3_600_000
    assert [note for note in past.notes if "2 pods (ml/b, ml/w) that later exports" in note]


def test_what_nobody_saw_is_to_be_exported_more_often_or_observed(tmp_path: Path):
    """No bucket of ours gets the advice that is for those of plug-ins."""
    past = read(tmp_path, one=export(6, running("b", 8, 2)), two=export(12, running("c", 8, 8)))
    statement = books(past).statement
    (advice,) = fixes.fixes(statement, Bucket.NOT_OBSERVED)
    assert advice.words.startswith("export more often, or keep `tidemill observe` running")
    told = [
        fix.words
        for bucket in {*Bucket} - {Bucket.USEFUL}
        for fix in fixes.fixes(statement, bucket)
    ]
    assert not [words for words in told if "plug-in" in words]


def test_the_order_and_the_number_of_files_say_nothing(tmp_path: Path):
    """Files are put in order by the times in them, and one that is there twice counts once."""
    one = export(6, running("b", 8, 2))
    two = export(12, running("c", 8, 8))
    run = books(read(tmp_path, a=two, b=one, c=one, d=two))
    assert hours(run) == {Bucket.NO_DEMAND: 16, Bucket.UNKNOWN: 64, Bucket.NOT_OBSERVED: 16}


def test_a_node_that_a_later_export_lacks_is_paid_until_that_one(tmp_path: Path):
    """n9 at 6 h and not at 12 h: of its 96 h the last 48 are not observed, and it is gone."""
    past = read(
        tmp_path,
        one=export(6, running("a", 4, 1), nodes=("n1", "n9", "n90")),
        two=export(12, running("a", 4, 1), nodes=("n1", "n90")),
    )
    assert any("1 node (n9) that later exports show no more" in note for note in past.notes)
    run = books(past)
    assert hours(run)[Bucket.NOT_OBSERVED] == 48
    assert run.statement.total().paid_milli_ms == 3 * 8_000 * 12 * 3_600_000
    there = run.world.nodes.state[: run.world.node_count].tolist()
    assert sorted(there) == [2, 2, 7]


def test_an_export_says_nothing_of_what_it_would_not_show(tmp_path: Path):
    """One namespace, one pod by name, a list that was cut, pods without nodes, another cluster."""
    first = export(6, running("b", 4, 2), running("c", 4, 2, namespace="other"))
    seen = node("n1", at=12 * HOUR)
    cut = listed(seen, *SYSTEM) | {"metadata": {"continue": "abc"}}
    later = {
        "namespace": listed(seen, running("d", 4, 7, namespace="third")),
        "single": running("d", 4, 7) | {"kind": "Pod"},
        "cut": cut,
        "pods": listed(*SYSTEM, running("d", 4, 7)),
        "elsewhere": listed(
            node("m1", at=12 * HOUR), running("x", 4, 3, on="m1"),
            running("y", 4, 3, on="m1", namespace="other"),
        ),
    }  # fmt: skip
    for name, told in later.items():
        past = read(tmp_path / name, one=first, two=told)
        rows = past.attempts.filter(past.attempts["job"].is_in(["ml/b", "other/c"]))
        assert rows["end_ms"].to_list() == [None, None], name
    past = read(tmp_path / "both", one=first, two=listed(seen, running("d", 4, 7)))
    ended = dict(past.attempts.select("job", "end_ms").iter_rows())
    assert ended["ml/b"] == made.BEGIN_MS + 6 * 3_600_000
    assert ended["other/c"] is None
    assert any("1 pod (other/c) in an earlier export alone" in note for note in past.notes)


def test_a_folder_for_each_day_with_a_file_for_each_kind(tmp_path: Path):
    """When pods were listed is known by the nodes beside them."""
    past = read(
        tmp_path,
        mon__nodes=listed(node("n1", at=6 * HOUR)), mon__pods=listed(running("b", 8, 2), *SYSTEM),
        tue__nodes=listed(node("n1", at=30 * HOUR)), tue__pods=listed(running("c", 8, 8), *SYSTEM),
    )  # fmt: skip
    run = books(past)
    assert hours(run) == {Bucket.NO_DEMAND: 16, Bucket.UNKNOWN: 208, Bucket.NOT_OBSERVED: 16}
    flat_ = read(
        tmp_path / "flat",
        **{"nodes-mon": listed(node("n1", at=6 * HOUR)), "nodes-tue": listed(node("n1", at=108000)),
           "pods-mon": listed(running("b", 8, 2), *SYSTEM),
           "pods-tue": listed(running("c", 8, 8), *SYSTEM)},
    )  # fmt: skip
    assert hours(books(flat_)) == hours(run)


def test_a_pod_whose_name_another_has_was_gone_when_that_was_made(tmp_path: Path):
    """r runs from 1 h, shown at 2 h; another r is made at 5 h: 8, 24 and 56 GPU-hours."""
    again = running("r", 8, 5)
    again["metadata"]["uid"] = "another"
    run = books(read(tmp_path, one=export(2, running("r", 8, 1)), two=export(12, again)))
    assert hours(run) == {Bucket.NO_DEMAND: 8, Bucket.UNKNOWN: 8 + 56, Bucket.NOT_OBSERVED: 24}


def test_a_job_object_that_is_gone_with_its_pods_waits_no_more(tmp_path: Path):
    """Neither where the later export lists jobs, nor where it lists none."""
    spec = {"parallelism": 1, "template": made.template(8)}
    job = made.owner("batch/v1", "Job", "j", spec, created=2 * HOUR)
    other = made.owner("batch/v1", "Job", "k", {"parallelism": 1, "template": made.template(0)})
    mine = running("j-1", 8, 2, owner=("batch/v1", "Job", "j"))
    for name, rest in {"lists": [other], "silent": []}.items():
        run = books(read(tmp_path / name, one=export(6, job, mine), two=export(12, *rest)))
        assert hours(run) == {Bucket.NO_DEMAND: 16, Bucket.UNKNOWN: 32, Bucket.NOT_OBSERVED: 48}
        assert state(run, "ml/j") is JobState.CANCELLED
    run = books(read(tmp_path / "there", one=export(6, job, mine), two=export(12, job)))
    assert state(run, "ml/j") is JobState.WAITING


@pytest.mark.parametrize(("namespace", "is_gone"), [("ml", False), ("other", True)])
def test_jobs_listed_in_one_namespace_say_nothing_of_another(
    tmp_path: Path, namespace: str, is_gone: bool
):
    """A suspended Job of `other`; later pods of all are listed, and Jobs of one namespace."""
    spec = {"parallelism": 1, "suspend": True, "template": made.template(8)}
    waits = made.owner("batch/v1", "Job", "j", spec, created=2 * HOUR)
    waits["metadata"]["namespace"] = "other"
    later = made.owner("batch/v1", "Job", "k", {"parallelism": 1, "template": made.template(0)})
    later["metadata"]["namespace"] = namespace
    past = read(
        tmp_path, mon=export(6, waits),
        tue__nodes=listed(node("n1", at=12 * HOUR)), tue__pods=listed(*SYSTEM),
        tue__jobs=listed(later),
    )  # fmt: skip
    (row,) = past.attempts.filter(job="other/j").rows(named=True)
    assert (row["outcome"] == "cancelled") is is_gone


def test_a_node_that_was_replaced_under_its_name_is_two_machines(tmp_path: Path):
    """The first is shown at 6 h, the second joins at 10 h and is shown at 12 h.

    a, on the first since 1 h, held it for 5 h; c holds the second. 80 and 16 GPU-hours are paid,
    32 of them not observed.
    """
    first, second = node("n1", at=6 * HOUR), node("n1", at=12 * HOUR, since=10 * HOUR)
    first["metadata"]["uid"], second["metadata"]["uid"] = "first", "second"
    past = read(
        tmp_path,
        b=listed(first, *SYSTEM, running("a", 8, 1)),
        a=listed(second, *SYSTEM, running("c", 8, 11)),
    )
    run = books(past)
    assert {row.name for row in run.world.node_rows} == {"n1", "n1 (earlier)"}
    assert hours(run) == {
        Bucket.NO_DEMAND: 8 + 8, Bucket.UNKNOWN: 40 + 8, Bucket.NOT_OBSERVED: 32,
    }  # fmt: skip


def test_a_node_that_registered_again_under_its_work_is_one_machine(tmp_path: Path):
    """A node was deleted and registered again at 10 h; a, there since 1 h, works on to the end.

    8 GPUs are paid for 12 h: 4 of them worked for 11.
    """
    first, second = node("n1", at=6 * HOUR), node("n1", at=12 * HOUR, since=10 * HOUR)
    first["metadata"]["uid"], second["metadata"]["uid"] = "first", "second"
    runs = running("a", 4, 1)
    past = read(tmp_path, b=listed(first, *SYSTEM, runs), a=listed(second, *SYSTEM, runs))
    run = books(past)
    assert [row.name for row in run.world.node_rows] == ["n1"]
    assert hours(run) == {Bucket.NO_DEMAND: 8 + 4 * 11, Bucket.UNKNOWN: 4 * 11}
    assert not [note for note in past.notes if "no more" in note]


def page(*objects: Object, more: int = 0) -> Object:
    """A list of pods as the API gives it in pages; ``more``: how many are on further ones."""
    meta = {"continue": "next", "remainingItemCount": more} if more else {}
    return {"apiVersion": "v1", "kind": "PodList", "items": list(objects), "metadata": meta}


def test_pages_that_are_in_no_file_are_missed(tmp_path: Path):
    """Of pods two pages are here: a third with 30 is said to be missing, and none where it is."""
    nodes = listed(node("n1", at=HOUR))
    first, second = page(running("a", 4, 0), more=31), page(running("b", 2, 0), more=30)
    past = read(tmp_path, nodes=nodes, first=first, second=second)
    assert past.refusals == 31
    assert "PodList goes on on another page" in past.refused[0].found
    whole = read(tmp_path, nodes=nodes, first=first, second=second, third=page(running("c", 1, 0)))
    assert whole.refusals == 0


def test_a_node_whose_clock_is_ahead_does_not_say_when_exports_were_made(tmp_path: Path):
    """A pod that went between 6 h and 12 h is over at 6 h, whatever a clock says of tomorrow."""
    names = ("n1", "n2", "n3")
    told = {}
    for at, pods in ((6, [running("a", 8, 2)]), (12, [])):
        one = export(at, *pods, nodes=names)
        one["items"].append(node("fast", at=(at + 24) * HOUR))
        told[f"at{at}"] = one
    past = read(tmp_path, **told)
    assert past.seen_ms == made.BEGIN_MS + 12 * HOUR * 1000
    (row,) = past.attempts.rows(named=True)
    assert row["end_ms"] == made.BEGIN_MS + 6 * HOUR * 1000


def test_a_node_of_which_no_later_export_speaks_is_named(tmp_path: Path):
    """The last file lists one node and no pods: whether n2 is still there it does not say."""
    both = export(6, running("a", 8, 2), nodes=("n1", "n2"))
    past = read(tmp_path, first=both, last=listed(node("n1", at=12 * HOUR)))
    assert any(note.startswith("1 node (n2) in an earlier export alone") for note in past.notes)
