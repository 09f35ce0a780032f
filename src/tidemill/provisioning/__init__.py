"""L2, what exists: nodes wanted, asked, seen, sick, draining."""
