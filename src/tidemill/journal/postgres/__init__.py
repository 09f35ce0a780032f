"""Journals in PostgreSQL: for teams that outgrow one file. Needs psycopg (``tidemill[postgres]``).

``address`` reads what people type and keeps passwords out of sight; ``server`` talks to the
server, also after it was restarted; ``schema`` has the tables; ``journal`` is the journal;
``making`` makes new ones and removes old ones. Whoever needs the last two calls
``require_psycopg`` first, and nobody else loads it.
"""

from importlib import import_module

from tidemill.model.errors import JournalError


def require_psycopg() -> None:
    """Say what to install where psycopg cannot be loaded."""
    try:
        import_module("psycopg")
    except ImportError as error:
        raise JournalError(
            f"a journal in PostgreSQL needs psycopg, which cannot be loaded: {error}",
            hint="pip install 'tidemill[postgres]'",
        ) from error
