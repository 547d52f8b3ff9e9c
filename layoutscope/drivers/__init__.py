"""What the drivers of Linux and macOS read on each file system: look-ups, listings, mounts, checks."""
