"""Which nodes work may be on, held against the rules written out."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.engine.check.book import _is_allowed
from tidemill.model.node_rules import LabelCondition, LabelTest, NodeRules

KEYS, VALUES = ("a", "b"), ("1", "2", "x")
pairs = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES))
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
conditions = st.builds(
    LabelCondition, st.sampled_from(KEYS), st.sampled_from(LabelTest),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2).map(tuple),
)  # fmt: skip
tolerated = st.tuples(st.sampled_from((*KEYS, "")), st.sampled_from((*VALUES, "")))


def naive(one: LabelCondition, found: dict[str, str]) -> bool:
    """A condition, word by word."""
    value = found.get(one.key)
    number = int(value) if value is not None and value.isdecimal() else None
    bound = int(one.values[0]) if one.values[0].isdecimal() else None
    if one.test == "in":
        return value is not None and value in one.values
    if one.test == "not_in":
        return value is None or value not in one.values
    if one.test == "exists":
        return one.key in found
    if one.test == "absent":
        return one.key not in found
    if number is None or bound is None:
        return False
    return number > bound if one.test == "above" else number < bound


@given(
    labels=labels,
    taints=st.sets(pairs, max_size=2),
    wanted=labels,
    tolerates=st.lists(tolerated, max_size=3),
    affinity=st.lists(st.lists(conditions, max_size=2), max_size=2),
)
def test_labels_taints_and_affinity_by_the_book(
    labels: dict[str, str],
    taints: set[tuple[str, str]],
    wanted: dict[str, str],
    tolerates: list[tuple[str, str]],
    affinity: list[list[LabelCondition]],
):
    """The scheduler's rule and the checker's own agree with it."""
    expected = all(labels.get(key) == value for key, value in wanted.items())
    for key, value in taints:
        expected &= any(k in ("", key) and v in ("", value) for k, v in tolerates)
    if affinity:
        expected &= any(all(naive(one, labels) for one in choice) for choice in affinity)
    rules = NodeRules(
        tuple(wanted.items()), tuple(tolerates), tuple(tuple(choice) for choice in affinity)
    )
    found = frozenset(labels.items())
    assert rules.allow(found, frozenset(taints)) == expected
    assert _is_allowed(rules, found, frozenset(taints)) == expected
