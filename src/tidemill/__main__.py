"""``python -m tidemill``: the same as ``tidemill``."""

from tidemill.cli.main import main

main()
