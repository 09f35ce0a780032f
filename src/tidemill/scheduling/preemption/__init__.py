"""Preemption: whom to stop so that a job can start, what that costs, and whether it is worth it."""
