"""What the ledger keeps while it reads: integrated over time by kernels, over columns of its own.

``columns`` names them; ``attempts`` follows jobs from attempt to attempt, ``claims`` divides what
is free among those that wait, ``usable`` weighs what arrivals could have used of it, ``reading``
goes through a batch of events. Buckets, windows and money are the ledger's own (``ledger``).
"""
