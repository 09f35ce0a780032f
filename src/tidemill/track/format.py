"""The format of records: what writer, reader and server agree on.

A record is one JSON object on one line. Times are microseconds since the epoch, amounts are
integers in the unit of their name, and what is absent is unknown. ``docs/reference/track.md`` has a
table for each type of record.
"""

VERSION = 1
"""``v`` of every record. A new field needs no new version: readers pass over what they do not know.
A field that changes its meaning, or a type of record that older readers must not skip, does."""

LONGEST_LINE = 16_384
"""Bytes of one line, its end included. A record has about 400; a longer line is not ours."""

LONGEST_TEXT = 200
"""Characters of a name; Kubernetes allows 253, hardly any has 100."""

MOST = 2**63 - 1
"""The largest number: what a 64-bit column holds."""
