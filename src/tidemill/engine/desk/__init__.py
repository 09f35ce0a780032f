"""The scheduler's desk, compiled: one cycle over columns."""
