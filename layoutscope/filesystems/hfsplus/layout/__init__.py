"""From what was read to the public tables."""
