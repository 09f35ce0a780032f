"""Plug-ins that are installed beside Tidemill; see ``tidemill.extend``."""

from importlib.metadata import entry_points

from tidemill.model.names import PLUGINS


def load() -> None:
    """Load them; without any, nothing is imported."""
    if entry_points(group=PLUGINS):
        from tidemill.extend import load_installed

        load_installed()
