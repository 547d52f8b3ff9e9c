"""What damage left: nodes that a sweep finds, trees rebuilt of them, and bounds of what is lost."""
