"""Orders that stop work by themselves: which jobs should run now, and how to get there."""
