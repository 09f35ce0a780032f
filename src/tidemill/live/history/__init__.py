"""What somebody else's cluster did, as events: the same for Slurm, CSV and Kubernetes files."""
