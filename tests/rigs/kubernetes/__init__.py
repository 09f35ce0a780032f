"""A real Kubernetes for the tests: its processes, and objects to put into it."""
