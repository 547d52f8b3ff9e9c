"""What was read, as tables."""
