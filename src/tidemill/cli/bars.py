"""Bars in a terminal: a length in eighths of a character."""

FULL = "█"
PARTS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def bar(share: float, width: int = 24) -> str:
    """A bar for a share between 0 and 1; more than 1 fills the width."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return FULL * (eighths // 8) + PARTS[eighths % 8]
