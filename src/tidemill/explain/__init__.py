"""Why it waits, whether it fits, when it starts: answers about the World as it is now.

``why`` one job waits, ``verdicts`` of the nodes, the ``board`` of everything waiting, ``fit`` before
submitting and the ``eta`` of a job in the queue. Pure: nothing here changes a World.
"""

from tidemill.explain.nodes import groups, verdicts
from tidemill.explain.present import Glance
from tidemill.explain.wait import why

__all__ = ["Glance", "groups", "verdicts", "why"]
