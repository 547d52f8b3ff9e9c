"""Result objects as text, JSON, files and maps."""
