"""Nodes that reservations keep and limits of partitions: the same rule for `why`, nodes and `fit`,
of an import and of an observer of the same cluster.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.live.observing.test_observer import BEGIN_S, Cluster, ask, cluster
from tests.live.slurm.test_whole_nodes import _job, _running
from tidemill.live.observing.observer import AnswerTaken
from tidemill.live.slurm import reservations

__all__ = ["ask", "cluster"]  # fixtures

NODES = "".join(
    f"NodeName=n{n} CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE Partitions=p\n"
    for n in (1, 2, 3)
)
BUSY = _running(1, "n1", 8, resv_name="class")


def _reservation(name: str, nodes: str, *, ends_s: int = 86_400, flags: str = "SPEC_NODES") -> str:
    start, end = BEGIN_S - 3600, BEGIN_S + ends_s
    return (
        f"ReservationName={name} StartTime={start}"
        f" EndTime={end} Nodes={nodes} NodeCnt=1 Flags={flags} Users=eve"
        " Accounts=(null) State=ACTIVE\n"
    )


class Site:
    """A cluster that is imported, and watched at the same moment."""

    def __init__(self, cluster: Cluster, ask: Callable[[], AnswerTaken], folder: Path) -> None:
        self._cluster, self._ask, self.folder = cluster, ask, folder
        (cluster.folder / "scontrol").write_text(
            '#!/bin/sh\ncase "$*" in *reservation*) what=reservation;;'
            " *partition*) what=partition;; *) what=scontrol;; esac\n"
            f"cat {cluster.folder}/$what.out\n"
        )
        self.journals = {name: str(folder / f"{name}.sqlite") for name in ("made", "fleet")}

    def shows(self, *jobs: dict[str, Any], at: int = 100, kept: str = "", limits: str = "") -> None:
        """What its commands print at a moment."""
        queue = json.dumps({"jobs": jobs})
        limits = limits or "PartitionName=p State=UP Nodes=n[1-3] TotalNodes=3\n"
        printed = {"squeue": queue, "scontrol": NODES, "partition": limits}
        for name, text in (printed | {"reservation": kept or "No reservations\n"}).items():
            self._cluster.print(name, text)
        texts = {"squeue.json": queue, "nodes.txt": NODES, "kept.txt": kept, "part.txt": limits}
        paths = []
        for name, text in texts.items():
            (self.folder / name).write_text(text)
            paths += [str(self.folder / name)] if text else []
        to = f"{datetime.fromtimestamp(BEGIN_S + at - 30, UTC):%Y-%m-%dT%H:%M:%S}"
        done = tidemill("import", "slurm", *paths, "--zone", "UTC", "--to", to, "--force", "-j",
                        self.journals["made"])  # fmt: skip
        assert done.code == 0, done.err
        self._cluster.at(at)
        self._ask()

    def says(self, *question: str) -> str:
        """What both journals say to a question; the same, but for commands that show it."""
        found = [tidemill(*question, "-j", at).out for at in self.journals.values()]
        made, watched = (
            [line for line in text.splitlines() if not line.startswith("  ") or line[2] == " "]
            for text in found
        )
        assert made == watched
        return found[0]

    def fits(self, job: str) -> tuple[str, str]:
        """The last question of `why`, the same of both."""
        found = [
            json.loads(tidemill("why", job, "-j", at, "--json").out)["answer"]["questions"][-1]
            for at in self.journals.values()
        ]
        assert found[0]["answer"] == found[1]["answer"], found
        return found[0]["answer"], found[0]["words"]


@pytest.fixture
def site(cluster: Cluster, ask: Callable[[], AnswerTaken], tmp_path: Path) -> Site:
    return Site(cluster, ask, tmp_path)


FIT = ("fit", "--team", "research", "--per-node", "8", "--partition", "p", "--gpus")
TWO = _job(9, tres_per_node="gres:gpu:h100:8", node_count=2,
           tres_req_str="cpu=2,node=2,gres/gpu=16")  # fmt: skip
ONE = _job(9, tres_per_node="gres:gpu:h100:8", tres_req_str="cpu=1,node=1,gres/gpu=8")
VIP = _reservation("vip", "n3")


def test_whether_a_node_that_is_kept_for_others_would_do_is_unknown(site: Site):
    """Two nodes are free and one of them is kept: two are unknown, one fits; all say the same."""
    site.shows(BUSY, TWO, kept=VIP)
    answer, words = site.fits("9")
    assert (answer, "reservation vip keeps n3 for others" in words) == ("unknown", True)
    told = site.says("why", "9", "--nodes")
    assert "by the books alone: unknown" in told
    assert "free, but reservation vip keeps it for others" in told
    told = site.says(*FIT, "16")
    assert "would run now" not in told
    assert "may run now, or wait: 16 accelerators free" in told
    assert "reservation vip keeps n3 for others" in told
    assert "would run now" in site.says(*FIT, "8")


def test_what_fits_without_the_kept_nodes_fits(site: Site):
    """One node is enough, and n2 is nobody's; a reservation of a busy node keeps nothing free."""
    site.shows(BUSY, ONE, kept=VIP + _reservation("class", "n1"))
    assert site.fits("9")[0] == "yes"
    assert "reservation" not in site.fits("9")[1]


def test_nodes_that_are_kept_count_for_a_job_of_several_nodes(site: Site):
    """Two halves of nodes would fit on n2 alone; whether they may share it nobody here can tell."""
    halves = _job(9, tres_per_node="gres:gpu:h100:4", node_count=2,
                  tres_req_str="cpu=2,node=2,gres/gpu=8")  # fmt: skip
    site.shows(BUSY, halves, kept=VIP)
    assert site.fits("9")[0] == "unknown"
    for at in (200, 300):  # it was deleted by the first of them, which is told at the second
        site.shows(BUSY, halves, at=at, kept=_reservation("class", "n1"))
    assert site.fits("9")[0] == "yes"


def test_a_job_with_a_reservation_may_use_the_nodes_of_it_alone(site: Site):
    """`class` has n1, which is full: what is free elsewhere is none of its; nor is vip's node."""
    site.shows(BUSY, ONE | {"resv_name": "class"}, kept=VIP + _reservation("class", "n1"))
    answer, words = site.fits("9")
    assert (answer, words) == ("no", "not enough is free: 8 `H100` busy")
    assert "8 `H100` in the cluster" in site.says("why", "9")
    rows = json.loads(tidemill("why", "9", "--nodes", "--json", "-j", site.journals["made"]).out)
    verdicts = {row["node"]: row["verdict"] for row in rows["nodes"]}
    assert verdicts == {"n1": "devices", "n2": "label", "n3": "label"}


def test_a_job_may_use_its_own_reservation(site: Site):
    """Of vip's own job nobody is in doubt."""
    site.shows(BUSY, ONE | {"resv_name": "vip"}, kept=VIP)
    assert site.fits("9")[0] == "yes"
    assert "`node` in `n3`" in site.says("why", "9")


@pytest.mark.parametrize(
    ("kept", "fits"), [("", "unknown"), (_reservation("vip", "n3", flags="FLEX"), "yes")]
)
def test_the_nodes_of_a_reservation_may_be_unknown_or_not_all(site: Site, kept: str, fits: str):
    """No output lists it: nobody can tell; with FLEX its jobs may be on other nodes, too."""
    site.shows(BUSY, ONE | {"resv_name": "vip"}, kept=kept)
    assert site.fits("9")[0] == fits


def test_a_reservation_counts_while_it_lasts(site: Site):
    """Deleted before the second look: two nodes fit then, and not as of the first."""
    site.shows(BUSY, TWO, kept=VIP)
    for at in (1_000, 1_100):  # it was deleted by the first of them, which is told at the second
        site.shows(BUSY, TWO, at=at)
    assert site.fits("9")[0] == "yes"
    then = f"{datetime.fromtimestamp(BEGIN_S + 70, UTC):%Y-%m-%dT%H:%M:%S}"
    asked = ("why", "9", "--at", then, "-j", site.journals["fleet"])
    assert "reservation vip keeps n3 for others" in tidemill(*asked).out


SHORT = "JOBID|STATE|REASON\n9|PENDING|Resources\n"
SACCT = """\
JobID|User|Account|Partition|State|Submit|Start|End|NNodes|NodeList|AllocTRES|ReqTRES|Reservation
9|dan|chem|p|PENDING|2026-11-02T09:30:00|Unknown|Unknown|1|None assigned||gres/gpu=8|class
"""


def test_a_short_squeue_leaves_the_reservation_to_sacct(tmp_path: Path):
    """The queue has three columns; the accounting names `class`, and its node is the job's."""
    kept = (
        "ReservationName=class StartTime=2026-11-02T06:00:00 EndTime=2026-11-03T06:00:00 Nodes=n2"
        " Flags=SPEC_NODES State=ACTIVE\n"
    )
    texts = {"squeue": SHORT, "sacct": SACCT, "nodes": NODES, "kept": kept}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    journal = str(tmp_path / "j.sqlite")
    paths = [str(tmp_path / f"{name}.txt") for name in texts]
    done = tidemill("import", "slurm", *paths, "--zone", "UTC", "--to", "2026-11-02T12:00", "-j",
                    journal)  # fmt: skip
    assert done.code == 0, done.err
    told = tidemill("why", "9", "-j", journal).out
    assert "for others" not in told
    assert "`node` in `n2`" in told


LIMITS = "PartitionName=p MaxNodes={nodes} MaxTime={time} Nodes=n[1-3] State={state} TotalNodes=3\n"


@pytest.mark.parametrize(
    ("nodes", "time", "state", "asked", "words"),
    [
        ("1", "2-00:00:00", "UP", ("16",), "never fits: it needs 2 nodes, {p} has MaxNodes=1"),
        ("1", "2-00:00:00", "UP", ("8", "--hours", "200"), "to run 8d 8h, {p} has MaxTime=2d"),
        ("1", "2-00:00:00", "UP", ("8", "--hours", "48"), "would run now: "),
        ("UNLIMITED", "UNLIMITED", "UP", ("16", "--hours", "200"), "would run now: "),
        ("UNLIMITED", "UNLIMITED", "DOWN", ("8",), "unknown: {p} has State=DOWN and starts no job"),
        ("UNLIMITED", "UNLIMITED", "DRAIN", ("8",), "{p} has State=DRAIN and takes no new job"),
    ],
)  # fmt: skip
def test_fit_keeps_to_what_a_partition_allows(
    site: Site, nodes: str, time: str, state: str, asked: tuple[str, ...], words: str
):
    """MaxNodes, MaxTime and State, with the partition named or the only one there is."""
    site.shows(BUSY, limits=LIMITS.format(nodes=nodes, time=time, state=state))
    words = words.format(p="partition `p`")
    assert words in site.says(*FIT, *asked)
    any_partition = tuple(word for word in FIT if word not in ("--partition", "p"))
    assert words in site.says(*any_partition, *asked)


def test_several_reservations_are_several():
    """The words agree in number."""
    (one,) = reservations.said({"a": "n1"})
    assert one.startswith("1 reservation that is not for maintenance (a: n1): who may use its")
    (two,) = reservations.said({"a": "n1", "b": "n2"})
    assert two.startswith(
        "2 reservations that are not for maintenance (a: n1; b: n2): who may use their nodes"
    )
