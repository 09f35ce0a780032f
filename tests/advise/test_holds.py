"""Jobs that something else than GPUs kept out are held in a replay as long as they were seen to."""

from pathlib import Path

import pytest

from tests.advise.test_shadow import H, kept, row, starts
from tidemill import api
from tidemill.advise.shadow import comparing
from tidemill.api import Replay
from tidemill.journal import open_journal
from tidemill.ledger.buckets import Bucket
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.slurm import eligibility, reasons
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Queue, Share

LICENCES = (Cause.NONE, "Licenses: not enough licences are free; to see it: scontrol show licenses")
BEHIND = (Cause.BEHIND, "Priority: held behind jobs of higher priority")
OF_USER = (Cause.OVER_LIMIT, "QOSMaxGRESPerUser: the maximum quota of its QOS for one user is")
OF_TEAM = (Cause.OVER_LIMIT, "AssocGrpGRES: the maximum quota of its account or user is reached")
OF_KUEUE = (Cause.OVER_LIMIT, 'kueue "insufficient quota"; that is: the quota is used up (kubectl)')
REFUSED = (Cause.NONE, 'webhook "no"; that is: its pods are refused, so it has none (kubectl)')
ROOM = (Cause.NONE, "default-scheduler; by its nodes and pods: 8 GPUs are free (kubectl)")
GATED = (Cause.NOT_ELIGIBLE, 'kube "x"; that is: held by scheduling gate y (kubectl)')
RESERVED = (Cause.NONE, "ReqNodeNotAvail: its time limit reaches into a reservation of a node")
NODE_OUT = (Cause.NOTHING_READY, "ReqNodeNotAvail: a node that it requests is down")
NOT_YET = (Cause.NONE, "None: not yet looked at")
NEW_WORD = (Cause.NONE, "Moon: Slurm says `Moon`, which is not in the list of its reasons")

WAITS = row("waits", 8, 2, 10, 12, "n0")
"""It waits for 8 hours beside 24 free GPUs or more."""
Told = tuple[int, Cause, str]


def played(
    folder: Path, told: list[Told], *rows: dict[str, object], queues: list[Queue] | None = None
) -> Replay:
    """The history of these rows and one job that waits, with what its scheduler said of that."""
    plain, where = kept(folder, [*(rows or (WAITS,))]), str(folder / "told.sqlite")
    with open_journal(plain) as seen, open_journal(where, create=True) as journal:
        for key, value in seen.facts().items():
            journal.set_meta(key, value)
        events = [*seen.read()]
        names = [e.job.name for e in events if isinstance(e, ev.JobSubmitted)]
        j = names.index("waits")
        said = [ev.ReasonSeen(at * H, j, cause, Layer.SCHEDULING, words)
                for at, cause, words in told]  # fmt: skip
        came = next(i for i, e in enumerate(events)
                    if isinstance(e, ev.JobSubmitted) and e.job.name == "waits")  # fmt: skip
        journal.append(events[: came + 1])
        later = sorted([*((e.at_ms, 1, e) for e in events[came + 1 :]),
                        *((e.at_ms, 0, e) for e in said)], key=lambda one: one[:2])  # fmt: skip
        journal.append([e for _, _, e in later])
    return api.replay(where, Policy(), str(folder / "shadow.sqlite"), queues=queues or ())


def test_a_job_that_waits_for_licences_starts_no_earlier(tmp_path: Path):
    """It would fit from 2 on, and begins at 10 on both sides: nothing is won, and that is said."""
    found = played(tmp_path, [(3, *LICENCES)])
    assert starts(found) == {"waits": 10}
    assert [found.report.earlier, found.report.later] == [[], []]
    assert found.report.held_back == (comparing.HeldBack("Licenses", 1, 8_000 * 8 * H),)
    (note,) = [text for text in found.report.notes() if "no replay knows" in text]
    assert "Licenses (1 job, 64.0 GPU-hours)" in note


def test_what_they_would_have_claimed_is_on_neither_side(tmp_path: Path):
    """In its own books GPUs are free beside it for an unknown cause; compared, they are not."""
    found = played(tmp_path, [(3, *LICENCES)])
    own = api.read_statement(str(tmp_path / "told.sqlite")).total()
    assert own.milli_ms[Bucket.CAUSE_UNKNOWN] == 8_000 * 8 * H
    seen, shadow = found.seen.total(), found.shadow.statement.total()
    assert [comparing.stranded_usd_micro(side) for side in (seen, shadow)] == [0, 0]
    assert seen.milli_ms[Bucket.NO_DEMAND] == own.milli_ms[Bucket.NO_DEMAND] + 8_000 * 8 * H
    assert seen.paid_usd_micro == own.paid_usd_micro
    waits = [side.waits.figures().total_wait for side in (found.seen, found.shadow.statement)]
    assert [wait and wait.mean for wait in waits] == [0, 0]


def test_who_becomes_free_of_it_may_start_from_then_on(tmp_path: Path):
    """Licences until 6, then behind others until 10: the policy may start it at 6."""
    found = played(tmp_path, [(3, *LICENCES), (6, *BEHIND)])
    assert starts(found) == {"waits": 6}
    assert found.report.held_back == (comparing.HeldBack("Licenses", 1, 8_000 * 4 * H),)
    seen = found.seen.total()
    assert seen.milli_ms[Bucket.HELD] == 8_000 * 4 * H


@pytest.mark.parametrize("told", [OF_USER, OF_KUEUE, REFUSED, GATED, RESERVED, NEW_WORD])
def test_blocks_hold(tmp_path: Path, told: tuple[Cause, str]):
    """Limits, gates, refusals and reservations, and words that nobody knows here."""
    assert starts(played(tmp_path, [(2, *told)])) == {"waits": 10}


@pytest.mark.parametrize("told", [BEHIND, ROOM, NODE_OUT, NOT_YET])
def test_what_another_scheduler_may_decide_otherwise_holds_nobody(
    tmp_path: Path, told: tuple[Cause, str]
):
    """Order, room, nodes that are out: the replay has them itself."""
    assert starts(played(tmp_path, [(2, *told)])) == {"waits": 2}


@pytest.mark.parametrize(("told", "start"), [(OF_TEAM, 2), (OF_KUEUE, 2), (OF_USER, 10)])
def test_a_quota_that_the_policy_names_is_the_policys(
    tmp_path: Path, told: tuple[Cause, str], start: int
):
    """With a quota of its team in the policy, that counts; a limit of its user is still none."""
    queues = [Queue("a", (Share("H100", limit_milli=16_000),))]
    assert starts(played(tmp_path, [(2, *told)], queues=queues)) == {"waits": start}


def test_who_never_becomes_free_of_it_is_left_out(tmp_path: Path):
    """To the end of the books it waits for a licence: it is in no wait, and starts on no side."""
    waits = row("waits", 8, 2, None, None, outcome=AttemptEnd.WAITING)
    found = played(tmp_path, [(3, *LICENCES)], waits, row("ends", 8, 1, 1, 12, "n1"))
    assert starts(found) == {"ends": 1}
    assert found.report.held_back == (comparing.HeldBack("Licenses", 1, 8_000 * 10 * H),)
    assert found.report.unknown.jobs == 0


def test_slurms_words_say_which_are_blocks():
    """All that make a job wait for something else than GPUs are; every block is a known word."""
    assert reasons.KNOWN.keys() >= reasons.BLOCKS
    as_printed = {word.replace(" ", "_") for word in reasons.BLOCKS}
    assert as_printed | reasons.BLOCKS >= {*eligibility.HELD}
    blocks = ["QOSMaxCpuPerUserLimit", "AssocGrpJobsLimit", "QOSMinGRES", "Licenses"]
    others = ["Resources", "Priority", "None", "NodeDown", "Prolog", "SchedDefer"]
    found = [reasons.word_of(f"{word}: as is told") for word in (*blocks, *others)]
    assert [one and one.is_block for one in found] == [True] * len(blocks) + [False] * len(others)
    assert reasons.word_of('kueue "a"; that is: b') is None
