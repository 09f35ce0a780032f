"""Columns as bytes, written, read and verified: the kernels of ``columns`` and ``packing``."""
