"""``layoutscope check`` and ``layoutscope verify``."""

from __future__ import annotations

from layoutscope.cli.options import AsJson, Image, Reading
from layoutscope.cli.running import show


def check(image: Image, *, reading: Reading, as_json: AsJson = False) -> int:
    """Check the structures of an image, read-only: every contradiction with its code and address."""
    from layoutscope.api.check import check as run

    found = run(image, **reading.asked())
    show(found, as_json=as_json)
    return found.exit_code


def verify(image: Image, *, reading: Reading, as_json: AsJson = False) -> int:
    """Read an image with both decoders, in bulk and through the grammars, and list what differs."""
    from layoutscope.api.verify import verify as run

    found = run(image, **reading.asked())
    show(found, as_json=as_json)
    return found.exit_code
