"""Every record of every tree with its place on the volume, which checks point to."""
