"""The four questions, in fixed order, stopping at the first "no".

Claimed (L1)? Ready and schedulable (L2)? Could it ever fit (L4)? Room now (L3)? One corner: where
nothing is Ready *and* it could never fit, the second "no" is shown and the third question is still
asked, because nodes that come back would not help; that is also what the scheduler says.
"""

from tidemill.explain import facts, phrasing
from tidemill.explain.answers import Question
from tidemill.explain.context import NO_SUPPLY, Case
from tidemill.model.reasons import NEVER, Cause, Layer


def questions(case: Case) -> tuple[Question, ...]:
    """The questions up to the first "no"."""
    asked = [_claimed(case)]
    if case.cause is Cause.NOTHING_CLAIMED:
        return tuple(asked)
    asked.append(_ready(case))
    if case.cause in NO_SUPPLY:
        return tuple(asked)
    asked.append(_ever(case))
    if case.cause in NEVER:
        return tuple(asked)
    return (*asked, _room(case))


def _claimed(case: Case) -> Question:
    question = "does a contract cover any accelerator that it may use?"
    if case.cause is Cause.NOTHING_CLAIMED:
        assert case.proof is not None, "a cause that never ends has its proof"
        return _no(Layer.RESERVATION, question, case.proof.words)
    return _yes(Layer.RESERVATION, question, case, facts.claimed)


def _ready(case: Case) -> Question:
    question = "are enough of them Ready and schedulable for this job alone?"
    if case.cause in NO_SUPPLY:
        held = "; ".join(row.words for row in facts.withheld(case))
        held = held or "nothing else is under contract"
        text = f"{facts.ready(case).words}, {facts.needs(case).words}; {held}"
        return _no(Layer.PROVISIONING, question, text, facts.claimed(case), facts.ready(case))
    if case.cause in NEVER and not case.supply.ready_milli:
        text = "none is Ready, but that is not what keeps it out"
        return _no(Layer.PROVISIONING, question, text, facts.ready(case))
    return _yes(Layer.PROVISIONING, question, case, facts.ready)


def _ever(case: Case) -> Question:
    question = "could it ever fit: its size, labels, gang and its team's maximum quota?"
    if case.proof is not None:
        return _no(Layer.WORKLOAD, question, case.proof.words)
    return _yes(Layer.WORKLOAD, question, case, facts.needs)


def _room(case: Case) -> Question:
    question = "does it fit now?"
    if case.cause is Cause.NONE:
        return _yes(Layer.SCHEDULING, question, case, facts.free)
    found = facts.evidence(case)
    text = f"{phrasing.cause(case.cause)}: {found[0].words}"
    return _no(Layer.SCHEDULING, question, text, *found)


def _yes(layer: Layer, question: str, case: Case, fact: facts.Make) -> Question:
    made = fact(case)
    assert made is not None, "the facts of a question are always there"
    return Question(int(layer), question, "yes", made.words, (made,))


def _no(layer: Layer, question: str, text: str, *found: facts.Fact) -> Question:
    return Question(int(layer), question, "no", text, found)
