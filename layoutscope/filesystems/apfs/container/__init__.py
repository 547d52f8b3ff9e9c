"""One container: checkpoints, object map, space manager, and what else belongs to no volume."""
