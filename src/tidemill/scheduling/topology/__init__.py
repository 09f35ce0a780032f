"""Topology: gangs whose replicas are to sit together, and how far apart a placement is."""
