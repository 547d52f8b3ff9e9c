"""Check rules for the structures of an HFS+ volume."""
