"""What one unit of compute is. For now: how capable each kind of accelerator is."""
