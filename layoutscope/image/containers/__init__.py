"""Disks inside containers, read in place: Apple disk images, sparse bundles and disks of virtual machines."""
