"""What hosts touch on a volume: the terms that drivers of file systems and orders share."""
