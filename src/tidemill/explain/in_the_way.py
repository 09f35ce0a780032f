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
    return Fact("in its way", len(seen.names), "pods", text, _shown(seen))


def fixes(case: Case) -> tuple[PricedFix, ...]:
    """What would end it; none: nothing is known of that."""
    seen = found(case.world, case.j)
    if seen is None:
        return ()
    names, places = phrasing.ids(seen.names) + seen.rest, phrasing.either(seen.places)
    match seen.rule:
        case PlaceRule.VOLUME if seen.names:
            return (PricedFix(_of_volume(case, names, len(seen.names) > 1)),)
        case PlaceRule.SPREAD if seen.places:
            return (PricedFix(f"wait until what it requests is free in {places}"), _LOOSER)
        case PlaceRule.TOGETHER if seen.places:
            return (PricedFix(f"wait until what it requests is free in {places}, beside {names}"),
                    _ONLY_PREFER)  # fmt: skip
        case PlaceRule.TOGETHER if told.NONE_SHOWN in told.words(case.world, case.j):
            return (PricedFix("start a pod that its podAffinity names"), _ONLY_PREFER)
        case PlaceRule.APART if seen.places:
            return (_gone(case, seen, names), _APART)
        case PlaceRule.PORT if seen.places:
            return (_gone(case, seen, names), _PORT)
    return ()


_LOOSER = PricedFix("raise `maxSkew` of its spread, or let it only prefer that (`ScheduleAnyway`)")
_ONLY_PREFER = PricedFix("let its podAffinity only prefer that (`preferredDuringScheduling…`)")
_APART = PricedFix("let the podAntiAffinity only prefer that (`preferredDuringScheduling…`)")
_PORT = PricedFix("let it request another hostPort, or none")


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


def _of_volume(case: Case, names: str, is_many: bool) -> str:
    words = told.words(case.world, case.j)
    claims = f"claim{'s' * is_many} {names}"
    if "not found" in words:
        return (
            f"make the volume {claims}, as far as they are not there"
            if is_many
            else (f"make the volume {claims}")
        )
    if "unbound" in words:
        return f"have the {claims} bound to a volume"
    return f"wait until what it requests is free where the volume of its {claims} can be used"


def _shown(seen: InTheWay) -> Commands:
    match seen.rule:
        case PlaceRule.VOLUME:
            return commands.volumes(seen.places[0], seen.names)
        case PlaceRule.SPREAD:
            return commands.places(key.partition("=")[0] for key in seen.places[:1])
        case _:
            return commands.pods(seen.names)
