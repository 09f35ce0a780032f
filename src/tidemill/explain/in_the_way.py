"""In the way: the pods that keep a job from room, where its scheduler's reason says that some do.

The reason names them (``live.kubernetes.in_the_way``), as they were when it was read. The fixes are
what would end it: those pods go, at the price of the work that they would lose, or the rule is one
that only prefers.
"""

import re
from typing import NamedTuple

from tidemill.explain import commands, phrasing, prices, told
from tidemill.explain.answers import Fact, PricedFix
from tidemill.explain.commands import Commands
from tidemill.explain.context import Case
from tidemill.model import lives
from tidemill.model.reasons import CLAIMS, IN_ITS_WAY, MAY_SPREAD, TO_BE_BESIDE, PlaceRule
from tidemill.model.states import ACTIVE
from tidemill.model.world import World

_LIST = r"([^\s,;()]+(?:, [^\s,;()]+)*)"
_AT = re.compile(rf"(?:{IN_ITS_WAY}|{TO_BE_BESIDE})([^\s;]+): {_LIST}")
_MAY = re.compile(rf"{MAY_SPREAD}{_LIST} \(([^)]*)\)")
_IS_LOST = re.compile(r'persistentvolumeclaim "[^"]*" (?:not found|does not exist)')
HOST = "kubernetes.io/hostname"
_CLAIMS = re.compile(rf"{CLAIMS}{_LIST}")


class InTheWay(NamedTuple):
    """Of which sort the rule is, the places that it is about, and the pods or claims."""

    rule: PlaceRule
    places: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    rest: str = ""
    """How many pods are in each place; or that more than those are there."""


def found(world: World, j: int) -> InTheWay | None:
    """What a job's reason says of that; None: it is about no such rule."""
    rule = told.place_rule(world, j)
    seen = world.reason_of(j)
    if rule is None or seen is None:
        return None
    if at := _AT.search(seen.words):
        names = [name for name in at[2].split(", ") if name != "…"]
        return InTheWay(rule, (at[1],), tuple(names), " and others" * ("…" in at[2]))
    if may := _MAY.search(seen.words):
        return InTheWay(rule, tuple(may[1].split(", ")), (), may[2])
    if claims := _CLAIMS.search(seen.words):
        namespace = world.job_names[j].partition("/")[0]
        return InTheWay(rule, (namespace,), tuple(claims[1].split(", ")))
    return InTheWay(rule)


def fact(case: Case) -> Fact | None:
    """Who it is, with the lines that show them."""
    seen = found(case.world, case.j)
    if seen is None or not seen.places:
        return None
    names, places = phrasing.ids(seen.names) + seen.rest, phrasing.ids(seen.places)
    match seen.rule:
        case PlaceRule.VOLUME:
            many = len(seen.names) > 1
            text = f"its volume claim{'s are' if many else ' is'} {names}"
        case PlaceRule.SPREAD:
            text = f"by its spread one more pod may be in {places}; {seen.rest}"
        case PlaceRule.TOGETHER:
            text = f"it has to be beside {names} in {places}"
        case _:
            text = f"in its way on {places}: {names}"
    return Fact(
        "in its way", len(seen.names), "pods", text, _shown(seen, told.words(case.world, case.j))
    )


def fixes(case: Case) -> tuple[PricedFix, ...]:
    """What would end the wait for what another scheduler's reason names, of whatever it is."""
    seen, does = found(case.world, case.j), told.way_out(case.world, case.j, case.waits)
    if seen is None:
        return (PricedFix(does),)
    looser = (_LOOSER[seen.rule],) if seen.rule in _LOOSER else ()
    return (_first(case, seen) or PricedFix(does), *looser)


def _first(case: Case, seen: InTheWay) -> PricedFix | None:
    """What ends it and leaves the pod as it is; None: nobody is named."""
    names, places = phrasing.ids(seen.names) + seen.rest, phrasing.either(seen.places)
    if not seen.places:
        is_alone = told.NONE_SHOWN in told.words(case.world, case.j)
        return PricedFix("start a pod that its podAffinity names") if is_alone else None
    match seen.rule:
        case PlaceRule.VOLUME:
            return PricedFix(_of_volume(case, phrasing.ids(seen.names), len(seen.names)))
        case PlaceRule.SPREAD:
            return PricedFix(f"wait until what it requests is free in {places}")
        case PlaceRule.TOGETHER:
            return PricedFix(f"wait until what it requests is free in {places}, beside {names}")
        case _:
            return _gone(case, seen, names)


_PREFER = "only prefer that (`preferredDuringScheduling…`)"
_LOOSER = {
    PlaceRule.SPREAD: PricedFix(
        "raise `maxSkew` of its spread, or let it only prefer that (`ScheduleAnyway`)"
    ),
    PlaceRule.TOGETHER: PricedFix(f"let its podAffinity {_PREFER}"),
    PlaceRule.APART: PricedFix(f"let the podAntiAffinity {_PREFER}"),
    PlaceRule.PORT: PricedFix("let it request another hostPort, or none"),
}
"""By the rule: to make it weaker."""


def _gone(case: Case, seen: InTheWay, names: str) -> PricedFix:
    """The pods end or go elsewhere: that loses their work, as far as the books have them."""
    world, number = case.before, case.before.job_number
    present = (lives.present(name, number) for name in seen.names)
    known = (number[name] for name in present if name is not None)
    jobs = [j for j in known if world.jobs.state.item(j) in ACTIVE]
    loss = prices.lost(world, jobs)
    is_known = len(jobs) == len(seen.names) and not seen.rest
    (place,) = seen.places
    text = f"have {names} on `{place}` end, or go elsewhere"
    return PricedFix(text, 0, loss.milli_ms, loss.usd_micro if is_known else None)


def _of_volume(case: Case, names: str, count: int) -> str:
    words, claims = told.words(case.world, case.j), f"claim{'s' * (count > 1)} {names}"
    if _IS_LOST.search(words):
        return f"make the volume {claims}" + ", as far as not there" * (count > 1)
    if "unbound" in words:
        return f"have the {claims} bound to a volume"
    return f"wait until what it requests is free where the volume of its {claims} can be used"


def _shown(seen: InTheWay, words: str) -> Commands:
    match seen.rule:
        case PlaceRule.VOLUME if _IS_LOST.search(words):
            return commands.volumes(seen.places[0])
        case PlaceRule.VOLUME:
            return commands.volumes(seen.places[0], seen.names)
        case PlaceRule.SPREAD:
            return commands.places(key.rpartition("=")[0] or HOST for key in seen.places[:1])
        case _:
            return commands.pods(seen.names)
