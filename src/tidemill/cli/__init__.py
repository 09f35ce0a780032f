"""Hands: the command line. It parses, calls, prints; it decides nothing."""
