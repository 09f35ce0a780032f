"""Trees of teams for stories: the three teams of a story put under others, and fair shares.

Draws nothing from the story's own chance, so that the rest of it is as it was.
"""

import dataclasses
from random import Random
from typing import Literal

from msgspec.structs import replace

from tests.engine.stage import Script
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue, Share

LARGEST_FLOOR = 4 * WHOLE_MILLI  # of one team; three of them stay below the limits above them
LIMITS_ABOVE = (FOREVER_MS, 12 * WHOLE_MILLI, 16 * WHOLE_MILLI)
SHAPES = (
    {"a": "p", "b": "p", "c": "", "p": ""},
    {"a": "p", "b": "p", "c": "r", "p": "r", "r": ""},
    {"a": "p", "b": "s", "c": "s", "p": "r", "s": "r", "r": ""},
    {"a": "", "b": "", "c": ""},
    {"a": "s", "b": "p", "c": "", "s": "p", "p": ""},
)
"""Who is under whom; the last named are above."""


def grown(script: Script, seed: int, kinds: tuple[str, ...]) -> Script:
    """The script with its teams in a tree, in two stories of three."""
    luck = Random(f"tree of {seed}")
    script = dataclasses.replace(script, policy=_fair(luck, script.policy))
    if luck.random() < 1 / 3:
        return script
    parents = luck.choice(SHAPES)
    above = [name for name in reversed(parents) if name not in "abc"]
    inner = [_inner(luck, name, parents[name], kinds) for name in above]
    bounds = {name: (luck.choice(_SOME), luck.choice(_SOME)) for name in "abc"}

    def put(row: Queue) -> Queue:
        borrow, lend = bounds[row.name]
        rows = tuple(_bounded(share, borrow, lend) for share in row.shares)
        return replace(row, shares=rows, parent=parents[row.name], weight=1 + len(rows))

    return dataclasses.replace(
        script,
        teams=[*inner, *(put(row) for row in script.teams)],
        incidents=[
            replace(event, queue=put(event.queue)) if isinstance(event, ev.QueueSet) else event
            for event in script.incidents
        ],
    )


def _fair(luck: Random, policy: Policy) -> Policy:
    fairness: Literal["none", "drf", "bill"] = luck.choice(("none", "drf", "bill"))
    half_life_ms = luck.choice((0, HOUR_MS))
    return replace(policy, fairness=fairness, usage_half_life_ms=half_life_ms)


_SOME = (FOREVER_MS, FOREVER_MS, 0, 2 * WHOLE_MILLI, 8 * WHOLE_MILLI)


def _inner(luck: Random, name: str, parent: str, kinds: tuple[str, ...]) -> Queue:
    rows = tuple(
        Share(
            kind,
            floor_milli=luck.choice((0, 0, 4)) * WHOLE_MILLI,
            limit_milli=luck.choice(LIMITS_ABOVE),
            borrow_milli=luck.choice(_SOME[:2] + _SOME[-1:]),
            lend_milli=luck.choice(_SOME),
        )
        for kind in kinds
        if luck.random() < 0.7
    )
    return Queue(name, rows, parent, luck.choice((1, 2, 5)))


def _bounded(share: Share, borrow_milli: int, lend_milli: int) -> Share:
    floor = min(share.floor_milli, LARGEST_FLOOR)
    return replace(share, floor_milli=floor, borrow_milli=borrow_milli, lend_milli=lend_milli)
