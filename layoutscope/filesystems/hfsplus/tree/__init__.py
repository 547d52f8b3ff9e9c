"""B-trees: their nodes, keys, records and shapes, whatever their leaves hold."""
