"""The one text of fold, order, fit and cycle: small functions over the columns of the state.

They compile and run interpreted, and say the same both ways (``kernel``).
"""
