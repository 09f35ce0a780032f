"""L3, who gets it: order, fit, make room, say why."""
