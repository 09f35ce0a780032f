"""Fitting: which nodes a request goes to, compiled; over the cluster state and a room."""
