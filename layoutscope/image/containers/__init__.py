"""Disks inside of containers, read in place: Apple disk images, sparse bundles, and what libyal reads."""
