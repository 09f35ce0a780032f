"""What keeps a job out whatever is free is its cause, its owner and its fix, busy or not.

One cluster as 24.11 printed it, with a job for each reason of Slurm; and the same, with nearly
nothing running. What the books find beside such a reason is told second, and is no fix.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.shell import tidemill
from tests.live.slurm.test_text import PRINTED
from tidemill.live.slurm import reasons
from tidemill.model import reasons as kept
from tidemill.model.reasons import Cause, Layer

FILES = ("nodes", "sacct", "accounts", "qos", "reservations", "partitions", "sinfo", "events")
BY_REASON = "do what its own scheduler's reason asks for: no GPU that comes free starts it"
L1, L2, L3, L4 = "reservation", "provisioning", "scheduling", "workload"
BLOCKS: dict[str, tuple[str, str]] = {
    "PartitionNodeLimit": ("impossible_gang", L4),
    "PartitionTimeLimit": ("none", L4),
    "PartitionConfig": ("none", L4),
    "PartitionDown": ("nothing_ready", L2),
    "BadConstraints": ("impossible_label", L4),
    "InvalidQOS": ("none", L4),
    "InvalidAccount": ("none", L4),
    "Licenses": ("none", L3),
    "Reservation": ("none", L1),
    "ReservationDeleted": ("none", L1),
    "BurstBufferResources": ("none", L3),
    "MaxMemPerLimit": ("none", L4),
    "QOSMaxWallDurationPerJobLimit": ("over_limit_always", L4),
    "QOSMaxJobsPerUserLimit": ("over_limit", L3),
    "AssocGrpCpuLimit": ("over_limit", L3),
    "AssocMaxJobsLimit": ("over_limit", L3),
    "QOSMinGRES": ("none", L4),
    "QOSUsageThreshold": ("none", L3),
    "JobArrayTaskLimit": ("none", L4),
    "SomethingNew": ("none", L3),
    "JobHeldUser": ("not_eligible", L4),
    "JobHeldAdmin": ("not_eligible", L3),
    "Dependency": ("not_eligible", L4),
}
"""Reasons of which no GPU that comes free is the end: the cause, and its owner."""
HELD = [word for word, (cause, _) in BLOCKS.items() if cause == "not_eligible"]
OTHERS: dict[str, tuple[str, str]] = {
    "Resources": ("busy", L3), "Priority": ("behind", L3), "None": ("busy", L3),
    "SchedDefer": ("busy", L3),
}  # fmt: skip
"""The others, where all is busy: the books say more, and waiting helps."""


class Fleet(NamedTuple):
    """A cluster in which one job waits for each reason."""

    journal: str
    ids: dict[str, str]

    def why(self, word: str) -> dict[str, Any]:
        """What `why` answers of the job of a reason."""
        found = tidemill("why", self.ids[word], "--json", "-j", self.journal)
        return dict(json.loads(found.out)["answer"])

    def pending(self, word: str) -> dict[str, Any]:
        """The job's own row in `pending`."""
        [row] = [row for row in self.board()["waiting"] if row["job"] == self.ids[word]]
        return dict(row)

    def board(self) -> dict[str, Any]:
        """All that `pending` says."""
        found = tidemill("pending", "--json", "--limit", "0", "-j", self.journal)
        return dict(json.loads(found.out))


def imported(folder: Path, words: list[str], *, is_free: bool, has_run: bool = True) -> Fleet:
    """The cluster of 24.11, in which the job `24` waits once for each of these words."""
    squeue = (PRINTED / "24.11" / "squeue.txt").read_text().splitlines()
    [row] = [one for one in squeue if one.startswith("24;")]
    ids = {word: str(100 + i) for i, word in enumerate(words)}
    waits = [row.replace("24;PENDING;Resources", f"{ids[w]};PENDING;{w}", 1) for w in words]
    runs = [one for one in squeue[1:] if ";PENDING;" not in one]
    if is_free:
        runs = [one for one in runs if has_run and one.startswith("14;")]
    (folder / "squeue.txt").write_text("\n".join([squeue[0], *runs, *waits]) + "\n")
    for name in FILES:
        text = (PRINTED / "24.11" / f"{name}.txt").read_text()
        if is_free and name == "sacct":
            continue
        if is_free and name == "nodes":
            text = re.sub(r"GresUsed=\S+|AllocTRES=\S*|CPUAlloc=\d+|AllocMem=\d+", "", text)
        (folder / f"{name}.txt").write_text(text)
    journal = str(folder / "fleet.sqlite")
    ran = tidemill("import", "slurm", str(folder), "--zone", "UTC", "-j", journal)
    assert ran.code == 0, ran.err
    return Fleet(journal, ids)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Three GPUs are free, and each job requests eight on one node."""
    return imported(tmp_path_factory.mktemp("busy"), [*BLOCKS, *OTHERS], is_free=False)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """One GPU of 24 is busy."""
    return imported(tmp_path_factory.mktemp("idle"), [*BLOCKS, "None"], is_free=True)


@pytest.mark.parametrize("fleet", ["busy", "idle"])
@pytest.mark.parametrize("word", BLOCKS)
def test_a_block_is_cause_owner_and_fix(word: str, fleet: str, request: pytest.FixtureRequest):
    """Whatever the books find beside it; `why` and `pending` say the same."""
    found: Fleet = request.getfixturevalue(fleet)
    cause, owner = BLOCKS[word]
    answer, row = found.why(word), found.pending(word)
    assert (answer["cause"], answer["owner"]) == (cause, owner)
    assert answer["reason"].startswith(f"its own scheduler says: {word}: ")
    assert (row["cause"], row["owner"]) == (cause, owner)
    assert row["says"] == ("" if word in HELD else word)
    assert answer["fix"]["words"] == BY_REASON
    assert answer["other_fixes"] == []
    assert answer["certificate"] is None
    assert "does its own scheduler let it start?" in answer["questions"][-1]["question"]
    assert [one for one in answer["words"].splitlines() if "cause" in one.split(":")[0]] == [
        one for one in answer["words"].splitlines() if one.endswith(f"(owner: {owner})")
        and not one.startswith("its own")
    ]  # fmt: skip


@pytest.mark.parametrize("word", [word for word in BLOCKS if word not in HELD])
def test_what_the_books_find_is_said_second(word: str, busy: Fleet, idle: Fleet):
    """That too little is free is true as well, and ends nothing; where much is free, that is."""
    assert "\nby the books alone: not enough is free\n" in busy.why(word)["words"]
    assert "\nby the books alone: what it requests is free\n" in idle.why(word)["words"]
    assert "become free (" not in busy.why(word)["words"]


@pytest.mark.parametrize("word", OTHERS)
def test_what_is_no_block_is_for_the_books_to_refine(word: str, busy: Fleet):
    """Room is what it lacks, or somebody goes first: it waits until some is free."""
    cause, owner = OTHERS[word]
    answer, row = busy.why(word), busy.pending(word)
    assert (answer["cause"], answer["owner"]) == (cause, owner)
    assert (row["cause"], row["owner"]) == (cause, owner)
    assert answer["fix"]["words"].startswith("wait until some of the 21 accelerators")


def test_rows_and_layers_of_the_board_are_of_the_reasons(busy: Fleet):
    """Each row has the owner of its word, and layers count by it."""
    rows = {row["says"]: row for row in busy.board()["rows"]}
    assert rows["PartitionTimeLimit"]["owner"] == L4
    assert rows["Licenses"]["owner"] == L3
    assert rows["Reservation"]["owner"] == L1
    assert rows["PartitionNodeLimit"]["cause_words"] == (
        "its own scheduler says PartitionNodeLimit"
    )
    layers = {row["owner"]: row["jobs"] for row in busy.board()["layers"]}
    assert layers[L1] == sum(owner == L1 for _, owner in BLOCKS.values())


def test_what_another_scheduler_alone_says_never_fits_claims_what_is_free(tmp_path: Path):
    """As the ledger has it: that word proves nothing of our books, which call it unknown."""
    fleet = imported(tmp_path, ["PartitionNodeLimit"], is_free=True)
    [row] = fleet.board()["rows"]
    assert (row["cause"], row["idle_milli"]) == ("impossible_gang", 8_000)


@pytest.mark.parametrize("word", ["Licenses", "PartitionTimeLimit", "JobHeldAdmin"])
def test_a_reason_is_told_where_nothing_ever_ran(word: str, tmp_path: Path):
    """Nobody was seen to place anything; that a scheduler gives a reason is enough."""
    fleet = imported(tmp_path, [word], is_free=True, has_run=False)
    answer, row = fleet.why(word), fleet.pending(word)
    assert (answer["cause"], answer["owner"]) == BLOCKS[word]
    assert (row["cause"], row["owner"]) == BLOCKS[word]
    assert answer["fix"]["words"] == BY_REASON
    board = fleet.board()
    assert (
        sum(one["idle_milli"] for one in board["rows"]) + board["unclaimed_milli"]
        == (board["free_milli"])
    )


def test_when_a_blocked_job_starts_is_unknown(busy: Fleet):
    """No simulation of ours knows when a licence is free, or who raises a limit."""
    told = tidemill("why", busy.ids["Licenses"], "--eta", "-j", busy.journal).out
    assert "starts is unknown: its own scheduler keeps it out, whatever is free" in told
    assert "\nmethod: the current cluster state simulated" not in told


def test_the_rule_of_a_kept_reason_is_that_of_slurms_table():
    """A journal keeps words: by them each word is the block that the table makes of it."""
    for word, known in reasons.KNOWN.items():
        meant = reasons.meaning(word)
        cause, words = meant.cause or Cause.NONE, f"{word}: {known.words}; to see it: x"
        is_never = cause in kept.NEVER  # no block of a replay, whose nodes are another's
        is_block = kept.is_block(cause, meant.layer or Layer.SCHEDULING, words)
        assert is_block == (meant.is_block or is_never), word
