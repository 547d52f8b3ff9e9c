"""The formats as their documents have them, and recorded faults of single fields with the verdicts of two programs."""
