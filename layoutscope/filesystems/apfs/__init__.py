"""APFS (Apple File System Reference) into tables."""
