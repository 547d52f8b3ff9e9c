"""Results as pages of plots that need no network."""
