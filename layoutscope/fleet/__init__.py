"""Fleets: many sources read by one batch, each in a process of its own, and the tables over all of them."""
