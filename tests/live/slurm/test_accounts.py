"""Accounts with limits as teams with quotas, and heterogeneous jobs as gangs of several roles."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.ledger.sums import amounts
from tests.live.observing.test_observer import BEGIN_S, NODE, TERMS, Cluster, _cells
from tidemill import api
from tidemill.ledger.buckets import ALLOCATED
from tidemill.live.observing.observer import Observer
from tidemill.live.slurm import accounts
from tidemill.live.slurm.commands import DELIMITER, SACCT_COLUMNS
from tidemill.live.slurm.evidence import LimitRules
from tidemill.live.slurm.rows import SlurmAssociation, SlurmQos
from tidemill.model.rows import Queue, Share

HEADER = "Cluster|Account|User|Partition|ParentName|Share|GrpTRES"
TREE = f"""{HEADER}
lab|root||||1|
lab|physics|||root|60|gres/gpu=12
lab|physics|ada|||1|gres/gpu=2
lab|lattice|||physics|10|gres/gpu=4
lab|optics|||physics|parent|
lab|idle|||root|1|
"""


def rows(text: str) -> list[SlurmAssociation]:
    """What `sacctmgr show assoc` prints, by hand."""
    names = ("cluster", "account", "user", "partition", "parent", "shares", "grp_tres")
    found = list[SlurmAssociation]()
    for line in text.splitlines()[1:]:
        cells: dict[str, Any] = dict(zip(names, line.split("|"), strict=True))
        found.append(SlurmAssociation(**{name: cell or None for name, cell in cells.items()}))
    return found


def queues_of(told: list[SlurmAssociation], *more: Any, qos: tuple[SlurmQos, ...] = ()) -> Any:
    """Accounts as teams, by these rules."""
    return accounts.queues_of(LimitRules(told, qos), *more)


def test_an_account_with_others_below_it_is_two_teams():
    """Its limit holds for all of them together; its own jobs are of a team below that."""
    notes = list[str]()
    found = queues_of(rows(TREE), {"physics", "optics"}, {"H100"}, {"lab"}, notes)
    assert found == [
        Queue("physics and below", (Share("H100", 0, 12_000),), "", 60),
        Queue("physics", (), "physics and below"),
        Queue("lattice", (Share("H100", 0, 4_000),), "physics and below", 10),
        Queue("optics", (), "physics and below", 1),
    ]
    (said,) = notes
    assert said.startswith("1 user (ada) may use so many GPUs: not read as quotas")


def test_limits_over_all_types_are_said_where_there_are_several():
    """A quota here is of one GPU type; by type it is read."""
    notes = list[str]()
    told = rows(TREE.replace("gres/gpu=4", "gres/gpu:a100=3,gres/gpu=4"))
    found = queues_of(told, set(), {"H100", "A100"}, {"lab"}, notes)
    assert {queue.name: queue.shares for queue in found if queue.shares} == {
        "lattice": (Share("A100", 0, 3_000),)
    }
    assert notes[0].startswith("1 account (physics) may use so many GPUs of all types together")


def test_accounts_of_other_clusters_are_left_out():
    """One accounting may serve several clusters."""
    other = TREE + "sea|pirates|||root|1|gres/gpu=1\n"
    found = queues_of(rows(other), {"optics"}, {"H100"}, {"lab"}, [])
    assert "pirates" not in {queue.name for queue in found}


QOS = (
    SlurmQos(name="owned", grp_tres="gres/gpu=8", max_tres_per_account="gres/gpu=6"),
    SlurmQos(name="shared", max_tres_per_user="gres/gpu=2", max_tres_per_account="gres/gpu=3"),
)
MEMBERS = [
    *(SlurmAssociation(account=name, parent="root") for name in ("buyers", "guests", "both")),
    SlurmAssociation(account="buyers", user="ada", qos="owned"),
    SlurmAssociation(account="guests", user="bob", qos="shared"),
    SlurmAssociation(account="both", user="eve", qos="normal,shared"),
]


def test_a_qos_is_a_quota_where_it_is_an_accounts_only_one():
    """What it gives to each account; and to all its jobs, where no other account has it."""
    notes = list[str]()
    found = queues_of(MEMBERS, {"both"}, {"H100"}, set[str](), notes, qos=QOS)
    assert {queue.name: queue.shares for queue in found} == {
        "buyers": (Share("H100", 0, 6_000),), "guests": (Share("H100", 0, 3_000),), "both": (),
    }  # fmt: skip
    assert not notes
    alone = (SlurmQos(name="owned", grp_tres="gres/gpu=8"), QOS[1])
    found = queues_of(MEMBERS, {"both"}, {"H100"}, set[str](), notes, qos=alone)
    assert {queue.name: queue.shares for queue in found}["buyers"] == (Share("H100", 0, 8_000),)


def test_a_qos_of_several_accounts_is_no_quota_and_said():
    """Accounts that may choose among QOS are not limited by one of them."""
    notes = list[str]()
    pool = (SlurmQos(name="pool", grp_tres="gres/gpu=4"),)
    found = queues_of(MEMBERS, {"both"}, {"H100"}, set[str](), notes, qos=pool)
    assert all(not queue.shares for queue in found)
    assert notes[0].startswith("1 QOS (pool) may use so many GPUs: not read as quotas")


class Accounted(Cluster):
    """A cluster whose sacctmgr tells accounts, or when nodes were down."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        script = folder / "sacctmgr"
        script.write_text(
            f'#!/bin/sh\ncase "$*" in *assoc*) cat {folder}/assoc.out;; *)'
            f" cat {folder}/sacctmgr.out;; esac\n"
        )
        self.print("assoc", TREE)


@pytest.fixture
def cluster(tmp_path: Path) -> Accounted:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Accounted(folder)


def test_a_job_above_the_limit_of_its_account_hears_of_it(cluster: Accounted, tmp_path: Path):
    """By what the account above it may use with all below; a limit that is raised counts."""
    where = str(tmp_path / "fleet.sqlite")
    runs = {"id": 7, "gpus": 8, "submit": 1, "start": 2, "account": "lattice"}
    waits = {"id": 8, "gpus": 6, "submit": 3, "state": "PENDING", "account": "optics",
             "node": "None assigned"}  # fmt: skip
    cluster.at(100, runs, waits)
    with Observer.open(where, cluster.source, TERMS, BEGIN_S * 1000) as observer:
        observer.ask()
    teams = json.loads(tidemill("fleet", "--teams", "--json", "-j", where).out)["teams"]
    assert [(row["team"], row["used_milli"], row["maximum_milli"]) for row in teams] == [
        ("physics and below", 8_000, 12_000), ("lattice", 8_000, 4_000),
    ]  # fmt: skip
    answer = json.loads(tidemill("why", "8", "--json", "-j", where).out)["answer"]
    assert answer["cause"] == "over_limit"
    assert "`physics and below` uses 8 of its maximum quota of 12" in answer["evidence"][0]["words"]
    cluster.print("assoc", TREE.replace("gres/gpu=12", "gres/gpu=16"))
    cluster.at(200, runs, waits)
    source = Accounted(cluster.folder).source
    cluster.print("assoc", TREE.replace("gres/gpu=12", "gres/gpu=16"))
    with Observer.open(where, source, TERMS, BEGIN_S * 1000) as observer:
        observer.ask()
    answer = json.loads(tidemill("why", "8", "--json", "-j", where).out)["answer"]
    assert answer["cause"] == "none"


def het(story: str) -> Iterator[str]:
    """Rows of sacct of a job of two parts: one GPU on n1, and four on each of n1 and n2."""
    for offset, (gpus, nodes) in enumerate(((1, "n1"), (8, "n[1-2]"))):
        job = {"id": f"20+{offset}", "gpus": gpus, "submit": 5, "node": nodes, "state": story}
        if story != "PENDING":
            job |= {"start": 30}
        if story not in ("PENDING", "RUNNING"):
            job |= {"end": 120}
        cells = dict(zip(SACCT_COLUMNS, _cells(job), strict=True))
        cells |= {"JobIDRaw": str(20 + offset), "NNodes": str(1 + offset)}
        if story == "PENDING":
            cells["NodeList"] = "None assigned"
        yield DELIMITER.join(cells[name] for name in SACCT_COLUMNS)


def test_parts_of_a_heterogeneous_job_are_one_gang(cluster: Accounted, tmp_path: Path):
    """It waits as one, holds nine GPUs in two roles, and ends once; told in parts."""
    where = str(tmp_path / "fleet.sqlite")
    for now, story in ((25, "PENDING"), (60, "RUNNING"), (95, "RUNNING"), (150, "COMPLETED")):
        cluster.at(now)
        with (cluster.folder / "sacct.out").open("a") as out:
            out.write("\n".join(het(story)) + "\n")
        terms = TERMS._replace(lateness_ms=1_000)
        with Observer.open(where, cluster.source, terms, BEGIN_S * 1000) as observer:
            taken = observer.ask()
            assert (taken.jobs, taken.late.words()) == (1, [])
        world, _ = api.open_world(where)
        shape = world.shape_of(world.job_number["20"])
        assert [(role.count, role.accelerators) for role in shape.roles] == [(1, 1), (2, 4)]
        if story == "RUNNING":
            held = [(piece.role, piece.node, piece.replicas) for piece in world.placements[0]]
            assert held == [(0, 0, 1), (1, 0, 1), (1, 1, 1)]
    sums = amounts(api.read_statement(where), "bucket")
    assert sum(sums[(bucket,)] for bucket in ALLOCATED) == 9 * 90 * 1_000_000


def test_an_import_of_it_says_the_same(tmp_path: Path):
    """From files, with the numbers of its parts as other names of it."""
    (tmp_path / "sacct.txt").write_text(
        DELIMITER.join(SACCT_COLUMNS) + "\n" + "\n".join(het("COMPLETED")) + "\n"
    )
    (tmp_path / "nodes.txt").write_text(NODE.format(n=1) + NODE.format(n=2))
    (tmp_path / "assoc.txt").write_text(TREE)
    journal = str(tmp_path.with_suffix(".sqlite"))
    done = tidemill("import", "slurm", str(tmp_path), "--zone", "UTC", "-j", journal)
    assert done.code == 0, done.err
    sums = amounts(api.read_statement(journal), "bucket")
    assert sum(sums[(bucket,)] for bucket in ALLOCATED) == 9 * 90 * 1_000_000
    teams = json.loads(tidemill("fleet", "--teams", "--json", "-j", journal).out)["teams"]
    assert ("physics and below", 12_000) in [(row["team"], row["maximum_milli"]) for row in teams]
