"""``layoutscope verify``."""

from __future__ import annotations

import sys

from layoutscope.cli.options import AsJson, Image, Reading


def verify(image: Image, *, options: Reading, as_json: AsJson = False) -> int:
    """Read an image with both decoders, in bulk and through the grammars, and list what differs."""
    from layoutscope.api.verify import verify as run
    from layoutscope.report.json.check import verification_json
    from layoutscope.report.text.check import print_verification
    from layoutscope.report.text.console import make_console

    found = run(image, **options)
    if as_json:
        sys.stdout.write(verification_json(found) + "\n")
    else:
        print_verification(found, make_console(sys.stdout))
    return found.exit_code
