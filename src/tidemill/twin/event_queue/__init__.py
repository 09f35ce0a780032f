"""What is going to happen in the twin, in columns: kernels push it, pop it and tell it."""
