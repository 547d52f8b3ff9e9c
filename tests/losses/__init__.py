"""What damage costs: sound images are damaged in a few places, and what is left of their entries is counted.

The fuzzer (`tests.fuzz`) asks whether a reader survives. This campaign asks whether it tells the truth: how many of
the entries it still finds, with and without ``--sweep``, whether ``fls`` finds more, and above all whether anything
is lost without a word: entries lost must mean exit code 3 and a coverage below 1.

``python -m tests.losses --count 300 --seed 1`` runs it and prints the figures by kind of structure.
"""
