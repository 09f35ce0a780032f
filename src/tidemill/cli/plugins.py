"""Plug-ins that are installed beside Tidemill; see ``tidemill.extend``."""

import sys
from pathlib import Path

from tidemill.model.plugins import GROUP


def load() -> None:
    """Load them; without any, nothing is imported."""
    if _may_be_some():
        from tidemill.extend import load_installed

        load_installed()


def _may_be_some() -> bool:
    """Whether a package in a folder of the path names plug-ins, or may in what is no folder.

    Python's own look-up takes ten times as long: it reads what each package says of itself.
    """
    group = f"[{GROUP}]".encode()
    for place in map(Path, dict.fromkeys(sys.path)):
        if place.is_file():
            return True
        for told in place.glob("*.*-info/entry_points.txt"):
            if group in told.read_bytes():
                return True
    return False
