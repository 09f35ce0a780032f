"""A journal read from its beginning is opened in fewer, larger batches than it was written in."""

from pathlib import Path

import numpy as np

from tidemill.journal import batch_rows, codec, open_journal, snapshots
from tidemill.model import events as ev

EVENTS = 40 * codec.EVENTS_PER_ROW


def test_rows_are_opened_together_the_more_are_read(tmp_path: Path):
    """The first as it is, later ones together; the same events in the same order from anywhere."""
    with open_journal(str(tmp_path / "j.sqlite"), create=True) as journal:
        journal.append([ev.Woke(at) for at in range(EVENTS)])
        for start in (0, 5, EVENTS // 2 + 1, EVENTS - 1):
            batches = list(journal.batches(start))
            at = np.concatenate([batch.events[:, 0] for batch in batches])
            assert at.tolist() == list(range(start, EVENTS))
        sizes = [len(batch.events) for batch in journal.batches()]
    assert sizes[0] == codec.EVENTS_PER_ROW
    assert len(sizes) < EVENTS // codec.EVENTS_PER_ROW
    assert max(sizes) <= batch_rows.MOST_TOGETHER


def test_no_snapshot_is_due_that_the_last_one_would_replace():
    """Of a journal whose length is foreseen; one that grows beyond it has them again."""
    apart = snapshots.APART
    foreseen = 3 * apart + apart // 4
    due = [
        seq for seq in range(apart, 6 * apart, apart) if snapshots.is_due(seq - 1, seq, foreseen)
    ]
    assert due == [apart, 2 * apart, 4 * apart, 5 * apart]
    kept = [apart, 2 * apart, 3 * apart, foreseen]
    assert snapshots.worn(kept, foreseen, is_last=True) == [3 * apart]
