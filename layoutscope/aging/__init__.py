"""How a volume's layout ages: models of allocation on the tables of the volume as it is."""
