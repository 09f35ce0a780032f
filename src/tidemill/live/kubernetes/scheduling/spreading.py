"""Gangs whose pods have to be spread over places, such as zones: so many in each, decided before.

A gang of one role becomes one of several, a role for each place with as many replicas as it is to
have there: then the loop places all of it or nothing, and the checker sees that each is where it
has to be. How many go where keeps the skew, counts the pods that are there already, and goes by
what is free now; as long as a division still fits it stays, for another one is another job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from tidemill.live.history.attempts import LONGEST_NAME
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.node_rules import LabelCondition, LabelTest
from tidemill.model.rows import Role, Shape

AT = "@"
"""Between the name of a role and the place that it is for; no value of a label has it."""
ELSEWHERE = "(elsewhere)"
"""Instead of a place: those for whom none was chosen are in any other. No label has this value."""
Placed = list[tuple[KubePod, int]]
"""Pods with the number of their role."""


def is_split(shape: Shape) -> bool:
    """Whether the roles of a shape are for one place each."""
    return all(AT in role.name for role in shape.roles)


def shares_of(shape: Shape) -> dict[str, int]:
    """How many replicas go to each place."""
    return {role.name.rpartition(AT)[2]: role.count for role in shape.roles}


def split(shape: Shape, key: str, shares: Mapping[str, int]) -> Shape:
    """A shape of one role as one of several, each in one place; ``key``: the label of places.

    Where the shares are fewer than its replicas the rest is elsewhere.
    """
    (role,) = shape.roles
    places = sorted(place for place in shares if shares[place])
    roles = [
        _at(role, place, shares[place], LabelCondition(key, LabelTest.IN, (place,)))
        for place in places
    ]
    if rest := role.count - sum(shares.values()):
        off = LabelCondition(key, LabelTest.NOT_IN, tuple(sorted(shares)))
        roles.append(_at(role, ELSEWHERE, rest, off))
    return replace(shape, roles=tuple(roles))


def _at(role: Role, place: str, count: int, here: LabelCondition) -> Role:
    choices = role.affinity or ((),)
    name = f"{role.name[: LONGEST_NAME - len(place) - 1]}{AT}{place}"
    return replace(
        role, name=name, count=count, affinity=tuple((*choice, here) for choice in choices)
    )


def divided(
    count: int, there: Mapping[str, int], free: Mapping[str, int], max_skew: int
) -> tuple[dict[str, int], bool]:
    """How many of a gang go to each place, the emptiest first; and whether they all fit there.

    ``there``: how many pods that count each place has; ``free``: for how many more it has room.
    """
    found, is_fit = dict.fromkeys(there, 0), True
    for _ in range(count):
        least = min(there[place] + found[place] for place in there)
        may = [p for p in there if there[p] + found[p] + 1 - least <= max_skew]
        able = [p for p in may if found[p] < free.get(p, 0)]
        is_fit = is_fit and bool(able)
        place = min(
            able or may,
            key=lambda p: (there[p] + found[p], found[p] - free.get(p, 0), p),
        )
        found[place] += 1
    return found, is_fit


def holds(
    shares: Mapping[str, int], there: Mapping[str, int], free: Mapping[str, int], max_skew: int
) -> bool:
    """Whether a division that was made before still keeps the skew, and fits."""
    if not shares.keys() <= there.keys():
        return False
    after = [there[place] + shares.get(place, 0) for place in there]
    is_even = max(after) - min(after) <= max_skew
    return is_even and all(count <= free.get(place, 0) for place, count in shares.items())


def with_roles(shape: Shape, mine: Placed, places: Sequence[str]) -> Placed:
    """The pods of a gang with the roles that they have in a shape for several places.

    ``places``: where each of them is, "" if nowhere. Those that are nowhere yet have what is left.
    """
    number = {role.name.rpartition(AT)[2]: r for r, role in enumerate(shape.roles)}
    if ELSEWHERE in number:
        places = [one if one in number or not one else ELSEWHERE for one in places]
    left = Counter({r: role.count for r, role in enumerate(shape.roles)})
    left.subtract(number[place] for place in places if place in number)
    free = iter(_each(left))
    return [
        (pod, number[place] if place in number else next(free, 0))
        for (pod, _), place in zip(mine, places, strict=True)
    ]


def _each(left: Counter[int]) -> Iterable[int]:
    for r in sorted(left):
        yield from [r] * left[r]
