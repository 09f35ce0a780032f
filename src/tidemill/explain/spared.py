"""Spared: whom the scheduler would preempt for a job, and who in the cluster keeps them.

A disruption budget is written by people, so that to change it is a fix; what the API server refused
is not.
"""

from collections.abc import Sequence

from tidemill.explain import commands, phrasing, prices
from tidemill.explain.answers import Fact, PricedFix
from tidemill.explain.context import Case
from tidemill.model.world import World

NAMED = 3
"""Disruption budgets that are named."""
BUDGET = "the PodDisruptionBudget "
"""How the words begin of who keeps a job, where that is a disruption budget."""


def fact(case: Case) -> Fact | None:
    """Who would be preempted for it, and is not: the cluster does not let them go."""
    kept = _kept(case)
    if not kept:
        return None
    return Fact("spared", len(kept), "jobs", words(case.world, kept), commands.budgets())


def words(world: World, kept: Sequence[int]) -> str:
    """Who would be preempted for a job, and who in the cluster does not let them go."""
    names = phrasing.ids([world.job_names[j] for j in kept])
    is_one = len(kept) == 1
    return (
        f"{names} would be preempted for it, and {'is' if is_one else 'are'} not:"
        f" {_keepers(world, kept)} not let all of {'its' if is_one else 'their'} pods go"
    )


def let_go(case: Case) -> tuple[PricedFix, ...]:
    """To change the disruption budgets that keep them: then those go too whom nobody keeps."""
    told = sorted({case.world.keepers.get(j, "") for j in _kept(case)})
    if not told or not all(words.startswith(BUDGET) for words in told):
        return ()
    loss = prices.lost(case.world, case.spared)
    names = phrasing.ids([case.world.job_names[j] for j in case.spared])
    then = f"then {names} {'is' if len(case.spared) == 1 else 'are'} preempted for it"
    it = "it" if len(told) == 1 else "them"
    text = f"let more pods go under {' and '.join(told)}, or delete {it}: {then}"
    return (PricedFix(text, 0, loss.milli_ms, loss.usd_micro),)


def _kept(case: Case) -> list[int]:
    return [j for j in case.spared if j in case.world.kept]


def _keepers(world: World, kept: Sequence[int]) -> str:
    """Who does not let the jobs go that are spared."""
    told = sorted({by for j in kept if (by := world.keepers.get(j, ""))})
    if not told:
        return "a disruption budget, or the API server, does"
    rest = [f"{len(told) - NAMED:,} more"] if len(told) > NAMED else []
    return f"{' and '.join([*told[:NAMED], *rest])} {'does' if len(told) == 1 else 'do'}"
