"""The real world, read: one folder per source, and its wire formats in that folder only."""
