"""Driving: beat after beat in one call, with Python only for what is rare."""
