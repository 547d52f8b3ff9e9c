"""What every verb and the library say of every image, written to a folder, so that two versions can be compared.

A change that must not alter results is proven by two runs over the same images::

    python -m tests.equality /tmp/before                           # with the old code
    python -m tests.equality /tmp/after --against /tmp/before      # with the new code

The second run uses the images of the first (``/tmp/before.images``) and ends with a list of what differs: kinds of
differing lines, each with how many images and outputs have it, and one of them. ``diff -r`` shows all.

The package under test is that of ``PYTHONPATH`` where one is there, else this checkout's; images are always written by
this checkout. So one version of this tool asks both: ``PYTHONPATH=/path/to/old python -m tests.equality /tmp/before``.
What the old code does not know is recorded as the usage error, or the exception, that it is.

``--images quick`` takes the fixtures' scenarios (a dozen of them are asked everything), a part of the planted faults,
disks in the files that they come in, files that are refused, and two of the reference images: five to eight minutes on
two quiet cores. ``all`` takes each fault and each reference image that the tests have decompressed, and asks everything
of all but the largest: hours. ``--only`` and ``--asks`` pick images and questions by parts of their names.

Versions, times, paths and identifiers that are made of paths are replaced by words; of very long outputs the start and
the SHA-256 are kept.
"""
