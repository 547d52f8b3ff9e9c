"""The committed pictures match the page."""

from __future__ import annotations

import base64

import pytest

from tests.docs.pictures import PICTURES, SHOWN, name_of, take, write_page

TILE = 16
MAX_LEVELS = 24
MAX_TILES = 0.02
"""Fonts and anti-aliasing differ between machines: the allowed share of tiles that differ by more than MAX_LEVELS."""

COMPARE = """async ([one, other, tile]) => {
  const tiles = async (png) => {
    const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob());
    const { width, height } = image;
    const canvas = new OffscreenCanvas(Math.ceil(width / tile), Math.ceil(height / tile));
    const pen = canvas.getContext('2d');
    pen.imageSmoothingQuality = 'high';
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return [width, height, ...pen.getImageData(0, 0, canvas.width, canvas.height).data];
  };
  const [a, b] = [await tiles(one), await tiles(other)];
  if (a.length !== b.length || a[0] !== b[0]) return 1;
  let far = 0;
  const apart = (i) => Math.max(...[0, 1, 2].map((k) => Math.abs(a[i + k] - b[i + k])));
  for (let i = 2; i < a.length; i += 4) far += apart(i) > LEVELS;
  return far / ((a.length - 2) / 4);
}""".replace("LEVELS", str(MAX_LEVELS))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Write the page of both committed images."""
    return write_page(tmp_path_factory.mktemp("pictures"))


def _differing(browser, one: bytes, other: bytes) -> float:
    """Return the share of tiles in which the two pictures differ."""
    blank = browser.new_page()
    texts = [base64.b64encode(png).decode() for png in (one, other)]
    share = blank.evaluate(COMPARE, [*texts, TILE])
    blank.close()
    return share


@pytest.mark.parametrize(("size", "dark"), SHOWN)
def test_pictures_are_those_of_the_page(browser, page, size, dark):
    """New ones are the same apart from fonts; ``python -m tests.docs.pictures`` renews them."""
    kept = (PICTURES / name_of(size, dark=dark)).read_bytes()
    assert _differing(browser, kept, take(browser, page, size, dark=dark)) <= MAX_TILES


def test_another_picture_is_told_apart(browser):
    """Light differs from dark, so the comparison can fail."""
    light, dark = ((PICTURES / name_of("laptop", dark=dark)).read_bytes() for dark in (False, True))
    assert _differing(browser, light, dark) > 0.5
