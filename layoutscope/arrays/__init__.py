"""Arithmetic on arrays that every room shares: ragged ranges, look-ups, sets of runs, bitmaps, columns.

Nothing here knows a format; numpy is all that it needs.
"""
