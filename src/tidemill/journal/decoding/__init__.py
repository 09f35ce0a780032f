"""Reading what ``journal.columns`` packed, and verifying what was read: kernels over bytes."""
