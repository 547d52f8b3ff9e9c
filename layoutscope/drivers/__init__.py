"""What the drivers of Linux and macOS touch on each file system: look-ups, listings, mounts, checks."""
