"""Rules of the structures of an HFS+ volume, which a check runs."""
