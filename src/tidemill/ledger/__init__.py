"""Where every paid millisecond went, and what it was worth."""
