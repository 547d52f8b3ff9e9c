"""Rules for the structures of an APFS container, each in the module of its structure; a check runs all of them."""
