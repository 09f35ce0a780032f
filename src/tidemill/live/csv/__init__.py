"""Tables of jobs and nodes that people keep themselves: any header, any of the usual times."""
