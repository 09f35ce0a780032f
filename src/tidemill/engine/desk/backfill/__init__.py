"""Backfill at the compiled desk: expected ends, reservations, and who may pass them."""
