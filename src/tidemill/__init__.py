"""Tidemill: are you getting useful work out of the accelerators you pay for?

Events are folded into a World; a pure core climbs four layers once and returns a Plan; a second
reader checks it; a backend (twin or live) carries it out and answers with events; the ledger reads
the journal. This module imports nothing, so that `tidemill --help` stays quick.
"""

__version__ = "0.1.0"
