"""Jobs that a scheduler of ours holds: in the list of what waits, and as the answers to ``why`` and
``decision``.

No queue has them, so nothing is asked of the scheduler: what keeps them is what it said.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tidemill.explain import commands, phrasing
from tidemill.explain.answers import Answer, Board, BoardRow, Fact, PendingJob, PricedFix, TeamWaits
from tidemill.explain.decision import stages
from tidemill.explain.decision.answers import Decision, Watch
from tidemill.journal.others_waiting import REASON
from tidemill.model.held import UnplacedJob
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.reasons import Cause, Layer

CAUSE = Cause.NOT_ELIGIBLE.name.lower()
_OF_OTHERS = frozenset({"BindRefused", "Waiting", "Unschedulable"})
"""Reasons of jobs that wait for pods to leave, or for nodes: it is not so whatever is free."""
_OF_SCHEDULER = frozenset({REASON, "BindForbidden", *_OF_OTHERS})
"""Reasons that are no matter of the job: who runs the scheduler, or another one, can help."""


def with_held(board: Board, held: Sequence[UnplacedJob]) -> Board:
    """The same list with the jobs that are held after those in the queue."""
    if not held:
        return board
    first = len(board.waiting) + 1
    rows = [_row(board.at_ms, reason, held) for reason in sorted({one.reason for one in held})]
    return replace(
        board, rows=(*board.rows, *rows), held=board.held + len(held),
        waiting=(*board.waiting, *(_job(board.at_ms, *one) for one in enumerate(held, first))),
        words=_words(board.words, held),
    )  # fmt: skip


def _words(words: str, held: Sequence[UnplacedJob]) -> str:
    """What waits, with those that are held, and those that wait for other schedulers."""
    others = sum(one.reason == REASON for one in held)
    if others:
        words = words.replace("nothing waits;", "nothing waits in the queue;")
        wait = "wait" if others > 1 else "waits"
        words += f"; {phrasing.many(others, 'pod')} of other schedulers {wait}, in no queue here"
    if own := len(held) - others:
        words += f"; {phrasing.many(own, 'job')} held: not placed, whatever is free"
    return words


def _job(now_ms: int, position: int, one: UnplacedJob) -> PendingJob:
    milli = one.gpus * WHOLE_MILLI
    return PendingJob(
        position, one.name, one.team, "", 0, milli, _asks(one), CAUSE, _waited(now_ms, one),
        verdict="unknown", reason=one.words, least_milli=milli,
        says=one.reason, owner=_layer(one.reason).name.lower(),
    )  # fmt: skip


def _row(now_ms: int, reason: str, held: Sequence[UnplacedJob]) -> BoardRow:
    mine = sorted((one for one in held if one.reason == reason), key=lambda one: one.since_ms)
    waited_ms, asked = _waited(now_ms, mine[0]), sum(one.gpus for one in mine) * WHOLE_MILLI
    teams = {one.team: [other for other in mine if other.team == one.team] for one in mine}
    layer = _layer(reason)
    how = "not planned here" if reason == REASON else "held"
    words = f"{phrasing.many(len(mine), 'job')} {how}: {reason}"
    return BoardRow(
        CAUSE, int(layer), layer.name.lower(), len(mine), asked, mine[0].name, waited_ms,
        tuple(
            TeamWaits(team, len(some), sum(one.gpus for one in some) * WHOLE_MILLI)
            for team, some in sorted(teams.items())
        ),
        0, 0, tuple(one.name for one in mine[:3]), words, cause_words=mine[0].words, says=reason,
    )  # fmt: skip


def answer(one: UnplacedJob, now_ms: int) -> Answer:
    """Why a job that is held waits."""
    waited_ms = _waited(now_ms, one)
    asks, layer = _asks(one), _layer(one.reason)
    owner = layer.name.lower()
    words = (
        f"job `{one.name}` of team `{one.team}` requests {asks} and has waited"
        f" {phrasing.since(waited_ms)}\n"
        f"cause: {_cause(one)} (owner: {owner})"
    )
    return Answer(
        job=one.name, team=one.team, state="waiting", asks=asks, cause=CAUSE, said=CAUSE,
        detail=one.reason, layer=int(layer), owner=owner, since_ms=one.since_ms,
        waited_ms=waited_ms, jobs_ahead=0, milli_ahead=0, questions=(),
        evidence=(_fact(one),), withheld=(), nodes=(),
        fix=PricedFix("do what the reason says"), other_fixes=(), do_not="",
        words=words, reason=one.words,
    )  # fmt: skip


def decision(one: UnplacedJob, now_ms: int) -> Decision:
    """The decision about a job that is held: it is not placed, and no node was looked at for it."""
    waited_ms, is_ours = _waited(now_ms, one), one.reason != REASON
    watched = f"in no queue, after a wait of {phrasing.since(waited_ms)}"
    requests, not_bound = _asks(one), f"{one.reason}: {_cause(one)}"
    return Decision(
        job=one.name, team=one.team, state="waiting", asks=requests,
        outcome="waits" if is_ours else "unknown", at_ms=now_ms,
        decided_by=stages.OURS if is_ours else stages.THEIRS, cause=CAUSE,
        watch=Watch(one.since_ms, one.since_ms, waited_ms, None, None, watched),
        filters=(), scores=(), bind=None, tried=(), not_bound=not_bound,
        words=f"job `{one.name}` of team `{one.team}` requests {requests}; {watched}\n{not_bound}",
    )  # fmt: skip


def _fact(one: UnplacedJob) -> Fact:
    """What its scheduler said, and where its pods have it."""
    return Fact("held", one.gpus * WHOLE_MILLI, "accelerator_milli", one.words,
                commands.held(one.name))  # fmt: skip


def _layer(reason: str) -> Layer:
    return Layer.SCHEDULING if reason in _OF_SCHEDULER else Layer.WORKLOAD


def _cause(one: UnplacedJob) -> str:
    if one.reason in _OF_OTHERS:
        return f"it is held as things are: {one.words}"
    return one.words if one.reason == REASON else f"it is held, whatever is free: {one.words}"


def _asks(one: UnplacedJob) -> str:
    if not one.is_counted:
        return "an unknown number of accelerators"
    return phrasing.many(one.gpus, "accelerator")


def _waited(now_ms: int, one: UnplacedJob) -> int:
    return max(0, now_ms - one.since_ms)
