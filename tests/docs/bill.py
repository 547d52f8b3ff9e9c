"""Writes the packages of an installation, with licences: ``python -m tests.docs.bill ENVIRONMENT -o FILE.cdx.json``.

CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/), of what is in an environment; no clock and no random number is
in it, so that the same environment gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

BROUGHT_ALONG = ("pip", "setuptools")
"""What environments bring along."""
OWN = "layoutscope"
CLASSIFIER = "License :: "
PERMISSIVE = ("MIT", "BSD", "Apache", "ISC", "PSF", "Python-2.0", "Zlib", "0BSD", "Python Software Foundation")
"""Words of licences that allow use in a program of any licence."""


def licence(distribution: Distribution) -> str:
    """Return the licence of a package as recorded: an expression, a classifier, or the first line of a text."""
    about = distribution.metadata
    classes = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith(CLASSIFIER)]
    text = (about.get("License") or "").strip().splitlines()
    return about.get("License-Expression") or (" AND ".join(classes) if classes else text[0] if text else "unknown")


def packages(environment: Path) -> list[Distribution]:
    """Return the packages of an environment by name."""
    folders = [str(path) for path in environment.glob("lib/python*/site-packages")]
    found = [each for each in distributions(path=folders) if each.name.lower() not in BROUGHT_ALONG]
    return sorted(found, key=lambda each: each.name.lower())


def bill(found: list[Distribution]) -> dict[str, Any]:
    """Return the document of packages."""
    parts = [_part(each) for each in found]
    (own,) = (part for part in parts if part["name"] == OWN)
    others = [part for part in parts if part is not own]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": others,
    }


def _part(distribution: Distribution) -> dict[str, Any]:
    name = distribution.name.lower().replace("_", "-")
    address = f"pkg:pypi/{name}@{distribution.version}"
    licences = [{"license": {"name": licence(distribution)}}]
    part = {"type": "library", "bom-ref": address, "name": name, "version": distribution.version, "purl": address}
    return {**part, "licenses": licences}


def main() -> int:
    """Write the document; end with 1 if a licence is unknown or does not allow any use."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environment", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    words = parser.parse_args()
    found = packages(words.environment)
    words.output.write_text(json.dumps(bill(found), indent=2) + "\n", encoding="utf-8")
    strict = [
        f"{each.name}: {licence(each)}" for each in found if not any(word in licence(each) for word in PERMISSIVE)
    ]
    print("\n".join(strict) or f"{len(found)} packages, each with a permissive licence")  # noqa: T201
    return 1 if strict else 0


if __name__ == "__main__":
    raise SystemExit(main())
