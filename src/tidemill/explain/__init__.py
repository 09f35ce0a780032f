"""Why it waits, whether it fits, when it starts: answers about the World as it is now.

``why`` one job waits, the ``verdicts`` of nodes, the ``board`` of everything waiting, ``fit``
before submitting and the ``eta`` of a job in the queue. Pure: nothing here changes a World.
"""

from tidemill.explain.forecast import eta, fit
from tidemill.explain.nodes import groups, verdicts
from tidemill.explain.pending import board
from tidemill.explain.present import Glance
from tidemill.explain.wait import why

__all__ = ["Glance", "board", "eta", "fit", "groups", "verdicts", "why"]
