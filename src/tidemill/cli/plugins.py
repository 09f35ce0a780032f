"""Plug-ins that are installed beside Tidemill; see ``tidemill.extend``."""

from importlib.metadata import entry_points

from tidemill.model.plugins import GROUP


def load() -> None:
    """Load them; without any, nothing is imported."""
    if entry_points(group=GROUP):
        from tidemill.extend import load_installed

        load_installed()
