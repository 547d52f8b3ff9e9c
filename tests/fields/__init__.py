"""Faults of single fields: every field that an image shows is changed, and what ``check`` says of it is counted.

``python -m tests.fields IMAGE...`` prints, by structure and by field, how many changes are found.
"""
