"""Rules that the structures of an HFS+ volume keep, each beside what it is about; a check runs all of them."""
