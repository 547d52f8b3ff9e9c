"""The parts of a volume that hosts read: the terms shared by file-system drivers and workloads."""
