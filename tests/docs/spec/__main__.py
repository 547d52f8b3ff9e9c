"""Write the tables; see the package."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.docs.spec import measure, pages, uses

parser = argparse.ArgumentParser(prog="python -m tests.docs.spec", description="Write docs/reference/spec-coverage.")
parser.add_argument(
    "--uses", action="store_true", help="first ask the type checker anew who uses which field; a minute"
)
parser.add_argument(
    "--measure", action="store_true", help="first look at all images, and change their fields; half an hour"
)
parser.add_argument("--images", type=Path, metavar="DIR", help="where fixtures are written, or are already")
options = parser.parse_args()
if options.uses:
    uses.write()
if options.measure:
    measure.main(options.images)
pages.write()
