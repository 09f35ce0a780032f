"""What `why` and `pending` say of two hand-written fleets, done as it is said.

A lab of two teams (guaranteed quotas, work that may not be preempted, a hot spare, many cores) and
an LLM company (two GPU types, gangs over racks, on demand): at some moments, of every waiting job.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.builders import decide, placed
from tidemill import api, explain
from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain.answers import Answer, Board
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World

HERE = Path(__file__).parent
MOMENTS = {"lab": (7, 21, 31, 48, 63), "llm": (11, 21, 31, 40)}
NOT_ENOUGH = "that alone does not start it"
Seen = tuple[World, Policy, Board]


@pytest.fixture(scope="module", params=sorted(MOMENTS))
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    """The cluster at each moment, with what waits and when it would start."""
    journal = str(tmp_path_factory.mktemp(request.param) / "run.sqlite")
    api.simulate(api.load_spec(HERE / f"{request.param}.toml"), journal)
    found = []
    for hours in MOMENTS[request.param]:
        world, policy = api.open_world(journal, hours * HOUR_MS)
        board = explain.with_eta(world, policy, explain.board(world, policy))
        found.append((world, policy, board))
    return found


def answers(moments: list[Seen]) -> Iterator[tuple[World, Policy, Answer]]:
    """Every answer at every moment."""
    for world, policy, board in moments:
        for row in board.waiting:
            yield world, policy, explain.why(world, policy, world.job_number[row.job])


def without_spares(world: World) -> World:
    """The same cluster with its hot spares put to use."""
    made = snapshot.copy(world)
    for c, row in enumerate(made.contract_rows):
        made.contract_rows[c] = replace(row, spares=0)
    for n in range(made.node_count):
        if made.nodes.is_spare[n]:
            fold(made, ev.AskedSpare(made.now_ms, n, False))
    return made


def test_hot_spares_come_first_exactly_where_they_start_the_job(moments: list[Seen]):
    """The scheduler decides on a copy without spares, for every job that is told about them."""
    told = 0
    for world, policy, answer in answers(moments):
        for fix in (answer.fix, *answer.other_fixes):
            if fix.words.startswith("release hot spares"):
                starts = answer.job in placed(world, decide(without_spares(world), policy))
                assert starts == (NOT_ENOUGH not in fix.words), (answer.job, fix.words)
                assert starts == (fix == answer.fix), answer.job
                told += 1
    assert told


def test_a_raise_starts_the_job_or_says_that_it_does_not(moments: list[Seen]):
    """Each raise of a maximum quota is set on a copy."""
    for world, policy, answer in answers(moments):
        for fix in (answer.fix, *answer.other_fixes):
            if fix.sets:
                made = snapshot.copy(world)
                fold_all(made, [ev.QueueSet(made.now_ms, row) for row in fix.sets])
                starts = answer.job in placed(made, decide(made, policy))
                assert starts == ("then it starts at once" in fix.words), fix.words
                assert starts or "the quota is not all that keeps it out" in answer.fix.words


def test_every_fix_is_printed(moments: list[Seen]):
    """As the fix, after it, or as what would run now instead."""
    for _, _, answer in answers(moments):
        offered = () if answer.certificate is None else answer.certificate.fits_now
        for fix in (answer.fix, *answer.other_fixes):
            assert fix.words in answer.words or fix.instead in offered, fix.words


def test_a_job_behind_another_does_not_start_before_it_is_let_pass(moments: list[Seen]):
    """The list does not say that a job which is held behind another starts now."""
    for _, _, board in moments:
        for row in board.waiting:
            assert row.eta is not None
            if row.cause == "behind":
                assert row.eta.p50_ms != 0, row.job
