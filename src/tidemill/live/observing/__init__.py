"""Watching a cluster: a source is asked now and then, and one journal grows."""
