"""The `--constraint` of a job: features of nodes, as choices of conditions on one node.

`a&b` (also `a,b`) and `a|b` are read from left to right, as Slurm does; brackets group. `[a|b]`
(all nodes with the same one of them) and `a*2` (so many nodes with it) are about the nodes of a job
together: of such a text the choices are what each node must meet at least, and ``is_whole`` says
that there is more to it.
"""

import re
from itertools import product
from typing import NamedTuple

from tidemill.model.node_rules import MOST_CONDITIONS, LabelCondition, LabelTest
from tidemill.model.rows import FEATURE

Choices = tuple[tuple[LabelCondition, ...], ...]
"""Any of them, all conditions of it; an empty one: any node."""
ANY_NODE: Choices = ((),)

_TOKEN = re.compile(r"\s*([&|,()\[\]!]|\*\s*\d+|[^&|,()\[\]!*\s]+)")


class FeatureRule(NamedTuple):
    """What a constraint asks of each node, and whether that is all that it asks."""

    choices: Choices
    is_whole: bool


UNREAD = FeatureRule(ANY_NODE, is_whole=False)


def parse(text: str, nodes: int) -> FeatureRule:
    """A constraint of a job on so many nodes."""
    reader = _ConstraintReader(_tokens(text), nodes)
    try:
        found = reader.expression()
    except (IndexError, ValueError):
        return UNREAD
    is_short = len(found.choices) <= MOST_CONDITIONS
    is_short &= all(len(choice) <= MOST_CONDITIONS for choice in found.choices)
    return found if is_short and not reader.left else UNREAD


def _tokens(text: str) -> list[str]:
    found, at = list[str](), 0
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        if token is None:
            return ["?", "?"]  # no constraint: left over, so it is not read
        found.append(token[1])
        at = token.end()
    return found


class _ConstraintReader:
    """The words of a constraint, one after the other; ``left``: those not read yet."""

    def __init__(self, tokens: list[str], nodes: int) -> None:
        self.left, self._nodes = tokens, nodes

    def expression(self) -> FeatureRule:
        """Terms from left to right, up to the end or a closing bracket."""
        found = self._term()
        while self.left and self.left[0] in ("&", ",", "|"):
            is_or = self.left.pop(0) == "|"
            other = self._term()
            choices = _either(found, other) if is_or else _both(found, other)
            found = FeatureRule(choices, found.is_whole and other.is_whole)
        return found

    def _term(self) -> FeatureRule:
        token = self.left.pop(0)
        if token in ("(", "["):
            found = self.expression()
            if self.left.pop(0) != {"(": ")", "[": "]"}[token]:
                raise ValueError("brackets that do not close")
            is_alike = token == "(" or self._nodes == 1 or len(found.choices) == 1
            found = found._replace(is_whole=found.is_whole and is_alike)
        elif token == "!":
            found = FeatureRule(((_condition(self.left.pop(0), LabelTest.ABSENT),),), is_whole=True)
        else:
            found = FeatureRule(((_condition(token, LabelTest.EXISTS),),), is_whole=True)
        return self._counted(found)

    def _counted(self, found: FeatureRule) -> FeatureRule:
        """What so many nodes have: all nodes of the job, or some of them."""
        if not (self.left and self.left[0].startswith("*")):
            return found
        count = int(self.left.pop(0)[1:])
        return found if count >= self._nodes else UNREAD


def _condition(name: str, test: LabelTest) -> LabelCondition:
    if not name[0].isalnum() and name[0] not in "_-.":
        raise ValueError(f"`{name}` is no feature")
    return LabelCondition(FEATURE + name, test)


def _either(one: FeatureRule, other: FeatureRule) -> Choices:
    choices = tuple(dict.fromkeys((*one.choices, *other.choices)))
    return ANY_NODE if () in choices else choices


def _both(one: FeatureRule, other: FeatureRule) -> Choices:
    if len(one.choices) * len(other.choices) > MOST_CONDITIONS**2:
        raise ValueError("more choices than can be kept")
    pairs = product(one.choices, other.choices)
    return tuple(dict.fromkeys(tuple(dict.fromkeys((*a, *b))) for a, b in pairs))
