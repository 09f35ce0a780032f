"""Products that may be larger than 64 bits, divided at once: exact, by integers alone."""

from tidemill.core.kernel import kernel

LARGEST = 1 << 62


@kernel
def divided(amount, rest, whole):
    """``amount * rest // whole``, where the product may be larger than a number can be."""
    if amount == 0 or rest <= LARGEST // amount:
        return amount * rest // whole
    found, left, bit = 0, 0, 0
    while amount >> bit > 1:
        bit += 1
    while bit >= 0:
        left = 2 * left + (amount >> bit & 1) * rest
        found = 2 * found + left // whole
        left %= whole
        bit -= 1
    return found
