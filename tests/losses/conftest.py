"""Sound images, which are written once and whose working copies are restored after each damage."""

from __future__ import annotations

from functools import cache

import pytest

from tests.losses.images import written_images
from tests.losses.victim import victim_of


@pytest.fixture(scope="session")
def sounds(tmp_path_factory):
    """Return the images that our writers make, by name."""
    return {sound.name: sound for sound in written_images(tmp_path_factory.mktemp("sound"))}


@pytest.fixture(scope="session")
def victim(sounds, tmp_path_factory):
    """Return a function that finds the working copy of an image by its name."""
    folder = tmp_path_factory.mktemp("victims")
    return cache(lambda name: victim_of(sounds[name], folder))
