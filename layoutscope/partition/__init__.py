"""Where volumes lie on a disk."""
