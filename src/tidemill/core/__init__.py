"""The one text of fold, order, fit and cycle: small functions over the columns of the state.

They compile (numba) and run interpreted, and say the same both ways (``kernel``).
"""
