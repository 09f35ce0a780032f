"""Long tables in files: rows that nobody reads any more take disk, and no memory.

Nearly all rows of a long run are of jobs that have ended. The memory of a matrix of ``LONG_BYTES``
and more is a file without a name (``model.paging`` says how it leaves the process). The file has
all its bytes from the beginning: where the disk is full, or the system has none of this, a matrix
is made in memory as any other.
"""

import mmap
import os
import tempfile
from pathlib import Path

from tidemill.model import paging

LONG_BYTES = 16 << 20
FOLDER = Path("/var/tmp")  # a disk, where /tmp is often memory; the file has no name there
_IS_POSSIBLE = hasattr(os, "posix_fallocate") and hasattr(mmap, "MADV_DONTNEED")


def spill() -> None:
    """From now on long matrices are made in files."""
    paging.take_from(_made)


def _made(size: int) -> mmap.mmap | None:
    return mapped(size) if size >= LONG_BYTES and _IS_POSSIBLE else None


def mapped(size: int) -> mmap.mmap | None:
    """So many bytes in a file that is gone when nobody has them; None: there is no place."""
    try:
        with tempfile.TemporaryFile(dir=FOLDER) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except OSError:
        return None
