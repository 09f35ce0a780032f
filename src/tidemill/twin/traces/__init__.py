"""Recorded clusters: one small importer per published format, and a registry of them."""

from tidemill.twin.traces.registry import formats, load, sniff
from tidemill.twin.traces.trace import Trace

__all__ = ["Trace", "formats", "load", "sniff"]
