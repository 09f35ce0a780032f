"""The second reader of stories: does every placement of a compiled stretch keep its promises?

As ``engine.check`` does for plans, it shares no code with the layers: which nodes a shape may use
is worked out here from the rows, and what is free is added up again from what was free before.
"""

import numpy as np

from tidemill.engine.layout import Before
from tidemill.engine.second_reader import kernels
from tidemill.engine.story import Story
from tidemill.model.errors import PlanRefused
from tidemill.model.tables import I64
from tidemill.model.world import World

_WORDS = {
    1: "is placed but not waiting",
    2: "is not the attempt that was meant",
    3: "gets a node that takes no new work, or that it may not use",
    4: "gets devices that are not there, not free, or not as many as it asked for",
    5: "gets more CPU or memory than its node has left",
    6: "is placed in part",
    7: "mixes GPU types",
    8: "takes its team above its maximum quota",
    9: "starts or ends without having been placed or started",
}


def check_story(world: World, before: Before, story: Story) -> None:
    """Refuse a story that breaks a promise; ``world`` is as the story leaves it."""
    shapes = world.shape_rows
    roles = np.array(
        [
            (role.accelerators, role.milli, role.cpu_milli, role.memory_mib, role.count)
            for role in (shape.roles[0] for shape in shapes)
        ],
        np.int64,
    ).reshape(-1, 5)
    first_ms = story.lines.at_ms[0] if len(story) else 0
    event, wrong = kernels.read(
        story.lines, story.pieces, world.jobs.shape, world.nodes, world.devices.is_failed,
        world.shapes.queue, roles, _may_use(world), world.limit, before.used.copy(),
        before.state.copy(), before.attempt.copy(), before.cpu_free.copy(),
        before.memory_free.copy(), before.device_free.copy(), before.aboard.first.copy(),
        before.aboard.pieces.copy(), first_ms,
    )  # fmt: skip
    if wrong:
        j = int(story.lines.subject[event])
        raise PlanRefused(
            f"at {story.lines.at_ms[event]} ms job `{world.job_names[j]}` {_WORDS[wrong]}",
            hint="nothing was written; this is a bug, please report it with the journal",
        )


def _may_use(world: World) -> I64:
    """For every shape and group of nodes: whether the kind and the labels are as asked."""
    found = np.zeros((len(world.shape_rows), max(1, len(world.groups))), np.int64)
    seen: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], I64] = {}
    for s, shape in enumerate(world.shape_rows):
        role = shape.roles[0]
        rule = (role.kinds, role.labels)
        if rule not in seen:
            seen[rule] = np.array(
                [
                    (not role.kinds or world.kinds[group.kind] in role.kinds)
                    and {*role.labels} <= group.labels
                    for group in world.groups
                ] or [False],
                np.int64,
            )  # fmt: skip
        found[s] = seen[rule]
    return found
