"""The command line, as people use it."""
