"""Read-only structure checks: one engine, and the rules of each file system."""
