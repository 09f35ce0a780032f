"""Backfill: who does not fit now gets a reservation, and others may pass that do not disturb it."""
