"""The volume: its header, its forks, its journal, its bitmap of used blocks."""
