"""The nodes on which room is being made for a job, one for each of its pods that finds one.

`nominatedNodeName` tells people, and autoscalers, where a pod will go when its victims have left:
nobody has to buy a node for it. It is a hint; the plan that places it may choose another.
"""

from collections import Counter

from tidemill.model.world import World


def nodes_for(world: World, s: int) -> dict[int, list[int]]:
    """By role of a shape: the nodes that those who leave for it will have room on, one per pod."""
    freed = Counter[int]()
    for j, heir in world.leaving_for.items():
        if heir == s:
            for piece in world.placements.get(j, ()):
                freed[piece.node] += piece.devices.bit_count()
    free = {n: count + _free(world, n) for n, count in freed.items()}
    found = dict[int, list[int]]()
    for r, role in enumerate(world.shape_rows[s].roles):
        for n in sorted(free):
            while role.accelerators and free[n] >= role.accelerators:
                if len(found.get(r, ())) == role.count:
                    break
                free[n] -= role.accelerators
                found.setdefault(r, []).append(n)
    return found


def _free(world: World, n: int) -> int:
    return world.nodes.free_milli.item(n) // 1000
