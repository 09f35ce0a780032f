"""The lives of a job or node: what was over does not come back, what has its name later is another.

The first is called as the source calls it, later ones by a number after that: `train`, `train#2`.
"""

from collections.abc import Container

from tidemill.model.world import World

LIFE = "#"
"""Between the name of a job or node that was over, and the number of its next life."""
FIRST = f"{LIFE}1"
"""By which people may ask for the first of several."""


def all_of(name: str, known: Container[str]) -> list[str]:
    """The names of all lives of what a source calls so, the present one last."""
    if name not in known:
        return []
    found, life = [name], 2
    while f"{name}{LIFE}{life}" in known:
        found.append(f"{name}{LIFE}{life}")
        life += 1
    return found


def present(name: str, known: Container[str]) -> str | None:
    """The name of the present life of what a source calls so; None: nobody knows it."""
    found = all_of(name, known)
    return found[-1] if found else None


def next_life(name: str, known: Container[str]) -> str:
    """A name for what a source calls so, and which was over."""
    base = origin(name, known)
    return numbered(base, max(1, len(all_of(base, known))) + 1)


def following(name: str, known: Container[str]) -> str:
    """What the life after this one is called, if there is one."""
    base = origin(name, known)
    life = int(name[len(base) + 1 :]) if base != name else 1
    return numbered(base, life + 1)


def numbered(name: str, life: int) -> str:
    """What this life of what a source calls so is called."""
    return f"{name}{LIFE}{life}" if life > 1 else name


def origin(name: str, known: Container[str]) -> str:
    """What a source calls this life."""
    base, _, life = name.rpartition(LIFE)
    return base if life.isdecimal() and base in known else name


def sources_names(world: World) -> list[str]:
    """Nodes by number, as sources call them: lives of one machine have one name there."""
    return [origin(row.name, world.node_number) for row in world.node_rows]


def node_name(world: World, n: int) -> str:
    """What the source of a node calls it: the name that people know."""
    return origin(world.node_rows[n].name, world.node_number)
