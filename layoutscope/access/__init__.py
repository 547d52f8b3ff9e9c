"""What hosts touch on a volume: the nouns in which drivers of file systems and the orders above them speak."""
