"""HFS+ and HFSX (TN1150) into tables."""
