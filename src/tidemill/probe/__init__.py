"""The probe: measure a real unit, and say how it stands against the catalogue and its peers."""
