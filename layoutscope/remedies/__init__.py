"""Remedies for a slow volume, each a changed layout, order or drive.

A remedy describes its change, and the walk and drive models predict the time; the planning tries all of them on one
volume and ranks them.
"""

from __future__ import annotations
