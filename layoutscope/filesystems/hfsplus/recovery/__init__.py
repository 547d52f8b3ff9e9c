"""What damage left: nodes found by a sweep, trees rebuilt, volumes without a header."""
