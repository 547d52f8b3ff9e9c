"""Cost of damage: sound images are damaged in a few places, and the entries that are still found are counted.

The fuzzer (`tests.fuzz`) tests whether a reader survives. This campaign tests whether it reports the truth: how many
entries it still finds, with and without ``--sweep``, whether ``fls`` finds more, and above all whether any loss is
silent. Lost entries must give exit code 3 and a coverage below 1.

``python -m tests.losses --count 300 --seed 1`` runs it and prints the figures by kind of structure.
"""
