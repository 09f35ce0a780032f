"""What Slurm's own commands print, as typed rows and columns. Nothing here changes a cluster.

``reading.open_output`` recognises what a file holds (``sacct -P``, ``sacct --json``, ``squeue``,
``scontrol show …``, ``sinfo``, ``sacctmgr -P show …``) and gives rows (``rows``) or, for a long
history, chunks of columns. ``commands`` runs those commands. ``reasons`` says which layer owns a
pending reason. What was not printed is ``None``: unknown is never zero.
"""
