"""From the text of kernels to machine code: the little of Python that kernels are written in.

Kernels are loops over columns: integers and arrays of them, no objects, nothing that allocates. So
their text is read (``functions``), each value's kind follows in one reading (``kinds``), and it is
written in LLVM's language (``writing``, ``arithmetic``) with what takes Python's arguments apart
(``door``); LLVM makes machine code of that (``assembling``). Whatever else Python has is refused,
with the line where it stands.
"""
