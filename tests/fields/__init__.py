"""Faults of single fields: changes every field that an image contains and counts what ``check`` finds.

``python -m tests.fields IMAGE...`` prints, by structure and by field, how many changes are found.
"""
