"""What of the formats' documents is read, used, checked and seen: ``python -m tests.docs.spec`` writes the tables.

``hfsplus.toml`` and ``apfs.toml`` list the sections, structures, fields and constants of the documents; everything else
is computed from the grammars, the package and images.
"""
