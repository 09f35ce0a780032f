"""A small HTTP server that takes the records of ``tidemill.track`` and keeps them in files.

``serve`` starts it; ``tidemill.live.track`` reads what it keeps. It listens on this machine alone
unless a token is given, and everything that it takes is bounded.
"""

from tidemill.live.ingest.left import take_left
from tidemill.live.ingest.server import IngestLimits, IngestServer, serve
from tidemill.live.ingest.spool import Spool

__all__ = ["IngestLimits", "IngestServer", "Spool", "serve", "take_left"]
