"""Long tables in files: rows that nobody reads any more take disk, and no memory.

Nearly all rows of a long run are of jobs that have ended. The memory of a long matrix is a file
without a name (``model.paging`` says which are long, and how it leaves the process). The file has
all its bytes from the beginning: where the disk is full, or the system has none of this, a matrix
is made in memory as any other.
"""

import ctypes
import mmap
import os
import tempfile
from pathlib import Path

from tidemill.model import paging

FOLDER = Path("/var/tmp")  # a disk, where /tmp is often memory; the file has no name there
_MMAP_THRESHOLD, _LARGE_BYTES = -3, 1 << 20  # as malloc.h calls and counts it
_STATM_BYTES = 256  # seven numbers
_IS_POSSIBLE = hasattr(os, "posix_fallocate") and hasattr(mmap, "MADV_DONTNEED")


def spill() -> None:
    """From now on long matrices are made in files."""
    paging.take_from(mapped, _resident)


def _resident() -> int:
    """What this process has of files in memory: libraries, and pages of mapped tables."""
    try:
        told = os.open("/proc/self/statm", os.O_RDONLY)  # some thousand times: not by way of Path
    except OSError:
        return 0
    try:
        return int(os.read(told, _STATM_BYTES).split()[2]) * mmap.PAGESIZE
    finally:
        os.close(told)


def give_back() -> None:
    """Have the C library give back what is free between blocks that are in use, if it can.

    It keeps such pages for what comes next; tables of a long history leave hundreds of MiB of them.
    """
    if (library := _library()) is not None:
        library.malloc_trim(0)


def give_back_at_once() -> None:
    """From now on the C library gives large blocks back as soon as they are free, if it can.

    Making them takes longer: for what makes few of them, and large ones.
    """
    if (library := _library()) is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        library.malloc_trim(0)


def _library() -> ctypes.CDLL | None:
    """The C library, if it is one that can be told how to give memory back."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None


def mapped(size: int) -> mmap.mmap | None:
    """So many bytes in a file that is gone when nobody has them; None: there is no place."""
    if not _IS_POSSIBLE:
        return None
    try:
        with tempfile.TemporaryFile(dir=FOLDER) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except OSError:
        return None
