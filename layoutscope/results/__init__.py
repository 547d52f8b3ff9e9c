"""What the library returns: plain data, one module a verb; reports render them, the analysis adds to them."""
