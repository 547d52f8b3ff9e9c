"""From bytes to structures: one at a time by grammar, many at a time by dtype."""
