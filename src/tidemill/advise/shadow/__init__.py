"""What another policy would have done with a recorded history, beside what was done, in dollars."""
