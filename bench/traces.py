"""Where recorded traces are: ``$TIDEMILL_TRACES``, else ``../shared/traces``."""

import os
from pathlib import Path


def folder() -> Path:
    """The folder of traces; without it there is nothing to replay."""
    found = Path(os.environ.get("TIDEMILL_TRACES") or "../shared/traces")
    if not found.is_dir():
        raise SystemExit(f"no traces in `{found}`; set TIDEMILL_TRACES to the folder of traces")
    return found
