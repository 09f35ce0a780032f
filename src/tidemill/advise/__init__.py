"""What to change: each fix applied to a spec on its own and replayed with the same seed."""
