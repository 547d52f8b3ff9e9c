"""``layoutscope checkpoints``."""

from __future__ import annotations

import sys

from layoutscope.cli.options import AsJson, Image, Reading


def checkpoints(image: Image, *, options: Reading, as_json: AsJson = False) -> None:
    """List the states of APFS that can be read: checkpoints and snapshots, and how much of them still exists."""
    from layoutscope.api.checkpoints import checkpoints as run
    from layoutscope.report.json.inspect import states_json
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.inspect import print_states

    found = run(image, **options)
    if as_json:
        sys.stdout.write(states_json(found) + "\n")
    else:
        print_states(found, make_console(sys.stdout))
