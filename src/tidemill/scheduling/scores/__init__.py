"""Scores: how well a node suits a request, by each of the placement policies."""
