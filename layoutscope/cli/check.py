"""``layoutscope check``."""

from __future__ import annotations

import sys

from layoutscope.cli.options import AsJson, Image, Reading


def check(image: Image, *, options: Reading, as_json: AsJson = False) -> int:
    """Check the structures of an image, read-only: every contradiction with its code and address."""
    from layoutscope.api.check import check as run
    from layoutscope.report.json.check import check_json
    from layoutscope.report.text.check import print_check
    from layoutscope.report.text.console import make_console

    found = run(image, **options)
    if as_json:
        sys.stdout.write(check_json(found) + "\n")
    else:
        print_check(found, make_console(sys.stdout))
    return found.exit_code
