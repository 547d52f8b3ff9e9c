"""A drive's profile from timed reads of it: the plan of the reads, their log, and the fit."""
