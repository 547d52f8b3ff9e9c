"""What the leaves of each B-tree hold: files, attributes, overflow extents, hot files, links."""
