"""Recorded clusters: one small importer per published format, and a registry of them."""
