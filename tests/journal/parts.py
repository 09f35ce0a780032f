"""The beginning of a journal, as if its run had been stopped there."""

from itertools import islice
from pathlib import Path

from tidemill.journal import completeness, open_journal


def beginning(whole: Path, path: Path, events: int) -> Path:
    """The first events of a journal and its facts, but for the one that it was completed."""
    with open_journal(str(whole)) as journal, open_journal(str(path), create=True) as part:
        for key, value in journal.facts().items():
            if key != completeness.COMPLETED:
                part.set_meta(key, value)
        part.append(list(islice(journal.read(), events)))
    return path
