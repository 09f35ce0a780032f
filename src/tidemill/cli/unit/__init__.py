"""``tidemill unit``: one accelerator or server; each command in a file of its own."""
