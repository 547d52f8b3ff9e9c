"""Results rendered: as text, JSON documents, tables in files, plots and maps; nothing is worked out here."""
