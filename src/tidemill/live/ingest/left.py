"""Records that jobs could not send to this server while it was down, and left on this machine."""

import socket
from pathlib import Path

from tidemill.live.ingest.server import IngestServer
from tidemill.track.spool import LeftRecords, folder_of


def take_left(server: IngestServer) -> int:
    """Take what ended jobs of this user left for this server; returns how many were new.

    ``OSError`` where they cannot be kept: then they stay where they are.
    """
    port, found = server.server_address[1], 0
    for host in _names_of(str(server.server_address[0])):
        folder = folder_of(f"http://{host}:{port}")
        if folder is None or not Path(folder).is_dir():
            continue
        left = LeftRecords(folder)
        try:
            while lines := left.first():
                found += server.spool.take(lines).accepted
                left.take_away(lines)
        finally:
            left.close()
    return found


def _names_of(host: str) -> list[str]:
    """What jobs of this machine, and of others that share its home folder, may call it."""
    own = socket.gethostname()
    return sorted({host, "127.0.0.1", "localhost", own, own.partition(".")[0]})
