"""The file systems of this package: one object each, which imports what answers a question when it is asked."""
