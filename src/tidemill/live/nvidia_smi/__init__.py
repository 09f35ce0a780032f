"""What devices measured of themselves, from files that nvidia-smi wrote, without a Prometheus.

``columns`` knows what its columns say; ``tables`` reads a file in blocks; ``hours`` makes of the
files of a fleet the hours that ``live.prometheus.joining`` makes windows of.
"""
