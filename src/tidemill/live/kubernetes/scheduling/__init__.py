"""Scheduling a Kubernetes cluster: pods that ask for us are placed by the twin's own loop."""
