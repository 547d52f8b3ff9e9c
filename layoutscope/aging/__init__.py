"""How a volume's layout ages: models of block allocation, starting from the volume's current tables."""
