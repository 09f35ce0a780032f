"""Benchmarks: scenarios, and the figures they gave. ``make bench`` runs them all."""
