"""What devices measured of themselves, read from a Prometheus: DCGM, nvidia-smi and AMD exporters.

``client`` asks; ``answers`` decodes; ``fields`` knows by which names exporters give which quantity;
``minutes`` divides samples into minutes of one GPU; ``reading`` goes through a stretch of time hour
by hour; ``store`` keeps hours in a folder; ``joining`` makes windows of jobs of them.
"""
