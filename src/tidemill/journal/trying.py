"""Whether a journal can be made, or gone on with, where somebody wants it; nothing is left of it.

On PostgreSQL what a writer does is done and taken back. Of a file only the rights are looked at: a
file that is made and removed could be seen meanwhile.
"""

import os
from pathlib import Path

from tidemill.journal.postgres import address, require_psycopg
from tidemill.journal.sqlite.schema import refuse_remains
from tidemill.model.errors import JournalError


def refuse_unless_writable(where: str) -> None:
    """Refuse an address or a path where a writer would be refused for want of rights or a place."""
    if not address.is_address(where):
        _refuse_path(Path(where).resolve())
        return
    require_psycopg()
    from tidemill.journal.postgres import schema  # noqa: PLC0415 - an extra

    found = address.of(where)
    with schema.connected(found) as session:
        schema.rehearse(session, schema.name_of(found.name))


def _refuse_path(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        hint = "make it, or give another path"
        raise JournalError(f"the folder {folder} is not there", hint=hint)
    for one in (folder, *([path] if path.exists() else [])):
        if not os.access(one, os.W_OK):
            hint = "ask for the right to write there, or give another path"
            raise JournalError(f"{one} cannot be written", hint=hint)
    if not os.path.lexists(path):
        refuse_remains(path)
