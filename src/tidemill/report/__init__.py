"""The ledger as one self-contained HTML page: nothing is loaded, nothing runs, everything adds up.

``report.render(statement, title=…)`` gives the text of the file. Python computes words and geometry
(``headline``, ``lines``, ``waterfall``, ``timeline``, …); the templates only write them down.
"""

from tidemill.report.page import render

__all__ = ["render"]
