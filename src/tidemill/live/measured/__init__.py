"""What was measured of running jobs, whoever measured it: windows of time, and saves."""
