"""File systems, each a package of its own that knows its format and nobody else's."""
