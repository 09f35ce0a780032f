"""Plug-ins that are installed beside Tidemill; see ``tidemill.extend``."""

from importlib.metadata import entry_points

GROUP = "tidemill.plugins"


def load() -> None:
    """Load them; without any, nothing is imported."""
    if entry_points(group=GROUP):
        from tidemill.extend import load_installed

        load_installed()
