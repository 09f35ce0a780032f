"""The twin: a world from a seed, a file or a trace, which answers actions with events.

It shares the whole loop with the live backends. Chance lives here and nowhere else.
"""
