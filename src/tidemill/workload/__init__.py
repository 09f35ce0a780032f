"""L4, what runs: jobs, their progress, and what an interruption costs them."""
