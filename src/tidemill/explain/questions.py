"""The four questions, in fixed order, stopping at the first "no".

Claimed (L1)? Ready and schedulable (L2)? Could it ever fit (L4)? Room now (L3)? One corner: where
nothing is Ready *and* it could never fit, the second "no" is shown and the third question is still
asked, because nodes that come back would not help; that is also what the scheduler says.
"""

from tidemill.explain import facts, phrasing
from tidemill.explain.answers import Question
from tidemill.explain.context import NO_SUPPLY, Case
from tidemill.model.reasons import NEVER, Cause, Layer

QUESTIONS = {
    Layer.RESERVATION: "does a contract cover any accelerator that it may use?",
    Layer.PROVISIONING: "are enough of them Ready and schedulable for this job alone?",
    Layer.WORKLOAD: "could it ever fit: its size, labels, gang and its team's maximum quota?",
    Layer.SCHEDULING: "does it fit now?",
}
"""In the order in which they are asked, by whose a "no" is."""
HAS_ANY = "has the cluster any accelerator that it may use?"
MAY_START = "does its own scheduler let it start?"
"""The first of them, of a cluster that is only looked at; and the last, where it is held, or where
its own scheduler alone says why."""


def questions(case: Case) -> tuple[Question, ...]:
    """The questions up to the first "no"."""
    if case.is_only_told:
        return (_yes(Layer.RESERVATION, case, facts.claimed), _may_start(case))
    asked = [_claimed(case)]
    if case.cause is Cause.NOTHING_CLAIMED:
        return tuple(asked)
    asked.append(_ready(case))
    if case.cause in NO_SUPPLY:
        return tuple(asked)
    asked.append(_ever(case))
    if case.cause in NEVER and case.proof is not None:
        return tuple(asked)
    return (*asked, _room(case))


def _claimed(case: Case) -> Question:
    if case.cause is Cause.NOTHING_CLAIMED:
        assert case.proof is not None, "a cause that never ends has its proof"
        return _no(Layer.RESERVATION, case, case.proof.words)
    return _yes(Layer.RESERVATION, case, facts.claimed)


def _ready(case: Case) -> Question:
    if case.cause in NO_SUPPLY:
        held = "; ".join(row.words for row in facts.withheld(case))
        held = held or f"nothing else is {phrasing.claimed(case.world)}"
        text = f"{facts.ready(case).words}, {facts.needs(case).words}; {held}"
        return _no(Layer.PROVISIONING, case, text, facts.claimed(case), facts.ready(case))
    if case.cause in NEVER and not case.supply.ready_milli:
        text = "none is Ready, but that is not what keeps it out"
        return _no(Layer.PROVISIONING, case, text, facts.ready(case))
    return _yes(Layer.PROVISIONING, case, facts.ready)


def _ever(case: Case) -> Question:
    if case.proof is not None:
        return _no(Layer.WORKLOAD, case, case.proof.words)
    return _yes(Layer.WORKLOAD, case, facts.needs)


def _room(case: Case) -> Question:
    if case.cause is Cause.NONE:
        return _unknown(case) or _yes(Layer.SCHEDULING, case, facts.free)
    found = facts.evidence(case)
    text = f"{phrasing.cause(case.world, case.cause)}: {found[0].words}"
    return _no(Layer.SCHEDULING, case, text, *found)


def _may_start(case: Case) -> Question:
    """What its own scheduler says, where nothing here shows whether that is so."""
    text = phrasing.waits_for(case.world, case.waits)
    return Question(int(case.waits.layer), MAY_START, "no", text, facts.evidence(case))


def _unknown(case: Case) -> Question | None:
    """What is free may do or not, where a role asks more of its nodes than the books can say."""
    more = case.unkept
    if not more:
        return None
    free = facts.free(case)
    text = f"{free.words}; whether that would do is unknown, for nobody here can tell: {more}"
    layer = Layer.SCHEDULING
    return Question(int(layer), _words(layer, case), "unknown", text, (free,))


def _yes(layer: Layer, case: Case, fact: facts.Make) -> Question:
    made = fact(case)
    assert made is not None, "the facts of a question are always there"
    return Question(int(layer), _words(layer, case), "yes", made.words, (made,))


def _no(layer: Layer, case: Case, text: str, *found: facts.Fact) -> Question:
    return Question(int(layer), _words(layer, case), "no", text, found)


def _words(layer: Layer, case: Case) -> str:
    if case.cause is Cause.NOT_ELIGIBLE and layer is Layer.SCHEDULING:
        return MAY_START
    is_first = layer is Layer.RESERVATION
    return HAS_ANY if is_first and case.world.is_observed else QUESTIONS[layer]
