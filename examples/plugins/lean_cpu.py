"""A placement score: the node with the least free CPU, so that nodes with much of it stay free.

In a spec file: ``[policy]`` with ``placement = "lean-cpu"``.
"""

from tidemill.extend import FreeNode, Role, add_score


def lean_cpu(node: FreeNode, request: Role) -> int:
    """The higher, the better."""
    return request.cpu_milli - node.cpu_free_milli


add_score("lean-cpu", lean_cpu)
