"""Futures: what a node will look like when demand has been fed to it."""
