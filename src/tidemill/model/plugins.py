"""Plug-ins that are installed beside Tidemill: which there are, and what to do without one.

``extend`` loads them; whoever meets a name that no table has says with ``missing`` what to do.
"""

from typing import NamedTuple

GROUP = "tidemill.plugins"
"""The entry-point group under which installed packages name their plug-ins."""


class Plugin(NamedTuple):
    """One that is installed: what it is called, and the package that brings it."""

    name: str
    package: str

    def __str__(self) -> str:
        return f"`{self.name}` of package `{self.package}`" if self.package else f"`{self.name}`"


LOADED: list[Plugin] = []
"""What this process loaded: a process that works for it loads them too."""


def named() -> str:
    """All that are loaded, in words; empty where there are none."""
    return ", ".join(map(str, LOADED))


def missing(what: str) -> str:
    """A hint for whoever named a row that nobody added."""
    return (
        f"if a plug-in adds this {what}, `pip install` the package that brings it (plug-ins"
        f" installed here: {named() or 'none'})"
    )
