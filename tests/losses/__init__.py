"""Damage to sound images: every loss is reported, with its causes and the rows that it cost."""
