"""The desk: one scheduling cycle's work over columns; what is rare goes back to Python."""
