"""Why it waits, whether it fits, when it starts: answers about the World as it is now.

``why`` one job waits, the ``verdicts`` of nodes, the ``board`` of everything waiting, ``fit``
before submitting, the ``eta`` of a job in the queue, and the moves that would let it in
(``defrag``). Pure: nothing here changes a World.
"""

from tidemill.explain.defrag import defrag
from tidemill.explain.forecast import eta, fit
from tidemill.explain.nodes import groups, verdicts
from tidemill.explain.pending import board, with_eta
from tidemill.explain.present import Glance
from tidemill.explain.wait import why

__all__ = ["Glance", "board", "defrag", "eta", "fit", "groups", "verdicts", "why", "with_eta"]
