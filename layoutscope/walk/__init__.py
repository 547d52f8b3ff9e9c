"""Orders: from a layout to the reads of a workload."""
