"""The page's colors are distinguishable for everybody, on light and on dark.

The difference is CIEDE2000 (Sharma, Wu and Dalal 2005, whose published pairs prove the arithmetic here); deficiencies
are Machado, Oliveira and Fernandes's (2009) at full strength.
"""

from __future__ import annotations

import itertools
import re
from importlib import resources

import numpy as np
import pytest

from layoutscope.report.map.figure import CHANGES, ROLES, Role

LEAST = 15.0
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def _lab(colour: str, sight: str) -> tuple[float, float, float]:
    """Return CIE L*a*b* of an sRGB color as seen with a given deficiency."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(SIGHTS[sight]) @ linear, 0, 1) / WHITE
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _mean_hue(one: float, other: float, is_grey: bool) -> float:
    if is_grey:
        return one + other
    if abs(one - other) <= 180:
        return (one + other) / 2
    return (one + other + (360 if one + other < 360 else -360)) / 2


def _difference(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return CIEDE2000 with all weights 1."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    grey = 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = (1 + grey) * a1, (1 + grey) * a2
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    lightness, chroma = l2 - l1, c2 - c1
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    mid, c, h = (l1 + l2) / 2, (c1 + c2) / 2, _mean_hue(h1, h2, c1 * c2 == 0)
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(share * np.cos(np.radians(times * h + shift)) for share, times, shift in waves)
    by_l = 1 + 0.015 * (mid - 50) ** 2 / np.sqrt(20 + (mid - 50) ** 2)
    by_c, by_h = 1 + 0.045 * c, 1 + 0.015 * c * t
    turned = 60 * np.exp(-(((h - 275) / 25) ** 2))
    mixed = -2 * np.sqrt(c**7 / (c**7 + 25**7)) * np.sin(np.radians(turned))
    parts = (lightness / by_l, chroma / by_c, hue / by_h)
    return float(np.sqrt(sum(part**2 for part in parts) + mixed * parts[1] * parts[2]))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_arithmetic_gives_the_published_differences(one, other, expected):
    """Pairs 1, 20, 10, 17 and 34 of the paper's table."""
    assert _difference(one, other) == pytest.approx(expected, abs=5e-5)


GROUND = {"light": "#ffffff", "dark": "#14171b"}


def _colours(roles: tuple[Role, ...], theme: str) -> dict[str, str]:
    return {"ground": GROUND[theme], **{role.key: getattr(role, theme) for role in roles}}


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("roles", [ROLES, CHANGES], ids=["roles", "changes"])
def test_any_two_roles_can_be_told_apart(roles, theme, sight):
    """Any two differ by at least 15, also from the background, for every viewer; there are at most five."""
    assert len(roles) == 5
    seen = {key: _lab(colour, sight) for key, colour in _colours(roles, theme).items()}
    near = {pair: _difference(seen[pair[0]], seen[pair[1]]) for pair in itertools.combinations(seen, 2)}
    assert {pair: round(value, 1) for pair, value in near.items() if value < LEAST} == {}


def test_the_style_has_the_roles_colors():
    """The style sheet has the same colors, on light and twice on dark: by system preference and by button."""
    page, figure = (
        resources.files("layoutscope.report.map").joinpath("assets", f"{name}.css") for name in ("page", "figure")
    )
    grounds = re.findall(r"{([^{}]*--bg: #\w{6}[^{}]*)}", page.read_text("utf-8"))
    roles = re.findall(r"{([^{}]*--main:[^{}]*)}", figure.read_text("utf-8"))
    blocks = [dict(re.findall(r"--(\w+): (#\w{6})", ground + own)) for ground, own in zip(grounds, roles, strict=True)]
    assert len(blocks) == 3
    for theme, block in zip(("light", "dark", "dark"), blocks, strict=True):
        assert block["bg"] == GROUND[theme]
        for role in (*ROLES, *CHANGES):
            assert block[role.key] == getattr(role, theme).lower()
