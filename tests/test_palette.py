"""Colours of charts: enough contrast on both grounds, and apart for every common colour vision."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specdec_cli.report.palette import EVEN, FASTER, LINES, OFF_COLOUR, SLOWER, THEMES, strokes

# Machado, Oliveira, Fernandes (2009), severity 1, in linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """`#rrggbb` as linear RGB."""
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2: between 1 and 21."""
    bright, dark = sorted((float(TO_XYZ[1] @ linear(c)) for c in (one, other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def lab(colour: str, vision: str) -> np.ndarray:
    """CIE Lab (D65) as that vision sees it."""
    seen = np.clip(VISION[vision] @ linear(colour), 0, 1)
    x, y, z = (TO_XYZ @ seen) / np.array([0.9505, 1.0, 1.089])
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("theme", THEMES)
def test_lines_stand_out_from_the_ground(theme: str) -> None:
    ground = THEMES[theme].ground
    for colour in (OFF_COLOUR, *LINES):
        assert contrast(colour, ground) >= 3.0, colour  # WCAG 2.1, 1.4.11: graphical objects
    assert contrast(THEMES[theme].ink, ground) >= 7.0
    assert contrast(THEMES[theme].faint, ground) >= 4.5


@pytest.mark.parametrize("vision", VISION)
def test_the_first_lines_are_told_apart_by_colour_alone(vision: str) -> None:
    """Later ones by marker and dash as well."""
    first = [lab(colour, vision) for colour in (OFF_COLOUR, *LINES[:3])]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(first, 2)) > 12


@pytest.mark.parametrize("vision", VISION)
def test_slower_and_faster_are_far_apart(vision: str) -> None:
    slow, even, fast = (lab(colour, vision) for colour in (SLOWER, EVEN, FASTER))
    assert np.linalg.norm(slow - fast) > 40
    assert min(np.linalg.norm(slow - even), np.linalg.norm(fast - even)) > 40


def test_no_two_of_many_lines_look_the_same() -> None:
    drawn = strokes([False, *[True] * 20])
    assert len({(one.colour, one.shape, one.dash) for one in drawn}) == len(drawn)
