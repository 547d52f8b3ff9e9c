"""The file systems of this package: one object each, which imports code on demand."""
