"""What eyes make of colours: contrast, distance, and colour blindness simulated."""

from __future__ import annotations

from textual.color import Color

Triple = tuple[float, float, float]

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear sRGB.
BLINDNESS: dict[str, tuple[Triple, Triple, Triple]] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def linear(color: str) -> Triple:
    """Linear sRGB, each 0 to 1."""
    red, green, blue = (
        u / 12.92 if u <= 0.04045 else ((u + 0.055) / 1.055) ** 2.4 for u in Color.parse(color).normalized
    )
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio of two colours, 1 to 21."""
    dark, light = sorted(
        0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in map(linear, (one, other))
    )
    return (light + 0.05) / (dark + 0.05)


def _times(matrix: tuple[Triple, Triple, Triple], v: Triple) -> Triple:
    a, b, c = (row[0] * v[0] + row[1] * v[1] + row[2] * v[2] for row in matrix)
    return a, b, c


def _oklab(rgb: Triple) -> Triple:
    """Ottosson's OKLab: equal steps look about equally large; lightness is 0 to 1."""
    lms = _times(
        (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        ),
        rgb,
    )
    long, medium, short = (max(0.0, x) ** (1 / 3) for x in lms)
    return _times(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        ),
        (long, medium, short),
    )


def distance(one: str, other: str, blind: str = "") -> float:
    """How far apart two colours look (OKLab; black to white is 1), with a kind of colour blindness."""
    sides = []
    for color in (one, other):
        rgb = linear(color)
        if blind:
            red, green, blue = (min(1.0, max(0.0, u)) for u in _times(BLINDNESS[blind], rgb))
            rgb = red, green, blue
        sides.append(_oklab(rgb))
    return sum((a - b) ** 2 for a, b in zip(*sides, strict=True)) ** 0.5
