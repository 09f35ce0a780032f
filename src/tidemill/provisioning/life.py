"""The life of a node, as one table: which move may follow which.

The diagram in the docs is drawn from ``MOVES``; the fold refuses every other move.
"""

from tidemill.model.states import NodeState

_S = NodeState

MOVES: dict[NodeState, frozenset[NodeState]] = {
    _S.ASKED: frozenset({_S.BOOTING, _S.GONE}),
    _S.BOOTING: frozenset({_S.READY, _S.UNHEALTHY, _S.GONE}),
    _S.READY: frozenset({_S.UNHEALTHY, _S.CORDONED, _S.DRAINING, _S.GONE}),
    _S.UNHEALTHY: frozenset({_S.READY, _S.REPAIRING, _S.GONE}),
    _S.CORDONED: frozenset({_S.READY, _S.UNHEALTHY, _S.DRAINING, _S.GONE}),
    _S.DRAINING: frozenset({_S.READY, _S.UNHEALTHY, _S.REPAIRING, _S.GONE}),
    _S.REPAIRING: frozenset({_S.BOOTING, _S.GONE}),
    _S.GONE: frozenset(),
}


def may_move(origin: NodeState, to: NodeState) -> bool:
    """Whether a node may go from one state to another in one step."""
    return to in MOVES[origin]


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {NodeState.ASKED.name.lower()}"]
    lines += [
        f"    {origin.name.lower()} --> {to.name.lower()}"
        for origin in NodeState
        for to in sorted(MOVES[origin])
    ]
    return "\n".join([*lines, f"    {NodeState.GONE.name.lower()} --> [*]"])
