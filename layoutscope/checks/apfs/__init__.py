"""Rules that the structures of an APFS container keep, each beside what it is about; a check runs all of them."""
