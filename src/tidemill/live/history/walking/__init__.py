"""Going through the moments of a history in order: kernels over columns."""
