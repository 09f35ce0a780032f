"""Tables of jobs as people have them."""
