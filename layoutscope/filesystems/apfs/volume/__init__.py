"""One volume: its superblock, states and trees."""
