"""The tests: events in, `assert decide(...) == Plan(...)` out."""
