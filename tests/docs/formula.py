"""Writes the Homebrew formula of a release: ``python -m tests.docs.formula SDIST PYLOCK -o FILE.rb``.

The packages it needs are those of a lock file (``pylock.toml``, PEP 751), of which it takes the source distributions;
addresses are those of the public package index alone. That of the release itself follows from its bytes, as the index
files what is uploaded by BLAKE2 hash.
"""

from __future__ import annotations

import argparse
import hashlib
import tomllib
from pathlib import Path
from typing import Any

HOST = "https://files.pythonhosted.org/packages/"
FORMULAE = ("numpy",)
"""Packages that are formulae of their own."""
PYTHON = "3.13"
RECIPE = """\
class Layoutscope < Formula
  include Language::Python::Virtualenv

  desc "Inspect the on-disk layout of HFS+ and APFS from raw images"
  homepage "https://pypi.org/project/layoutscope/"
  url "{url}"
  sha256 "{sha256}"
  license "MIT"

{dependencies}

{resources}

  def install
    virtualenv_install_with_resources
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/layoutscope --version")
  end
end
"""
RESOURCE = """\
  resource "{name}" do
    url "{url}"
    sha256 "{sha256}"
  end"""


def address(file: str, content: bytes) -> str:
    """Return the address of an uploaded file in the public package index."""
    digest = hashlib.blake2b(content, digest_size=32).hexdigest()
    return f"{HOST}{digest[:2]}/{digest[2:4]}/{digest[4:]}/{file}"


def resources(lock: dict[str, Any]) -> list[dict[str, str]]:
    """Return name, address and hash of each source distribution in a lock file, by name."""
    found = []
    for package in sorted(lock["packages"], key=lambda each: str(each["name"])):
        name = package["name"]
        if name in FORMULAE:
            continue
        if "sdist" not in package:
            raise SystemExit(f"{name} has no source distribution, which Homebrew builds from")
        url = package["sdist"]["url"]
        if not url.startswith(HOST):
            raise SystemExit(f"{name} is not of the public package index: {url}")
        found.append({"name": name, "url": url, "sha256": package["sdist"]["hashes"]["sha256"]})
    return found


def formula(file: str, content: bytes, lock: dict[str, Any]) -> str:
    """Return the formula of a source distribution."""
    locked = {package["name"] for package in lock["packages"]}
    needed = sorted([*locked.intersection(FORMULAE), f"python@{PYTHON}"])
    return RECIPE.format(
        url=address(file, content),
        sha256=hashlib.sha256(content).hexdigest(),
        dependencies="\n".join(f'  depends_on "{name}"' for name in needed),
        resources="\n\n".join(RESOURCE.format_map(each) for each in resources(lock)),
    )


def main() -> None:
    """Write the formula."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sdist", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    words = parser.parse_args()
    lock = tomllib.loads(words.lock.read_text(encoding="utf-8"))
    words.output.write_text(formula(words.sdist.name, words.sdist.read_bytes(), lock), encoding="utf-8")


if __name__ == "__main__":
    main()
