"""Events folded into the cluster state: one at a time, or a batch in columns."""
