"""What training loops wrote with ``tidemill.track``: read, checked, each record once.

``read`` gives all at once, ``TrackReader`` one record after the other, for files that do not fit
into memory. A line that cannot be used is refused by its number and with the reason; the others
count all the same.
"""

from tidemill.live.track.reader import Readings, RefusedLine, TrackReader, read
from tidemill.live.track.records import TrackRecord, parse
from tidemill.live.track.seen import SeqGap

__all__ = ["Readings", "RefusedLine", "SeqGap", "TrackReader", "TrackRecord", "parse", "read"]
