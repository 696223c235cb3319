"""Pictures in a terminal: histograms, lines and maps of characters, and the image protocols of kitty and iTerm2."""

import base64
from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .histogram import histogram
from .maps import finite_range, shrink, to_indices

__all__ = ["histogram_text", "inline_image", "line_text", "map_colours", "map_text"]

Palette = Sequence[Tuple[int, int, int]]

_BLOCKS = " ▏▎▍▌▋▊▉█"
_SHADES, _PLAIN_SHADES = " ░▒▓█", " .:-=+*#%@"
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def histogram_text(array: np.ndarray, bins: int = 16, width: int = 48, plain: bool = False) -> str:
    """One bar a line, with the bin's lower border and its count."""
    found = histogram(array, bins=bins)
    if found is None:
        return "no finite values"
    most = max(found.counts[0])
    lines = ["%12.5g  %s  %d" % (edge, _bar(count, most, width, plain), count)
             for edge, count in zip(found.edges(), found.counts[0])]  # fmt: skip
    lines.append("%12.5g" % found.high)
    if found.left_out[0]:
        lines.append("%d NaN or Inf left out" % found.left_out[0])
    return "\n".join(lines)


def _bar(count: int, most: int, width: int, plain: bool) -> str:
    if plain:
        return ("#" * int(round(width * count / most))).ljust(width)
    eighths = int(round(width * 8 * count / most)) or int(count > 0)
    full, rest = divmod(eighths, 8)
    return (_BLOCKS[8] * full + (_BLOCKS[rest] if rest else "")).ljust(width)


def line_text(array: np.ndarray, width: int = 72, height: int = 12, plain: bool = False) -> str:
    """The values in order as a line of dots, the range at the left."""
    values = np.asarray(array, np.float64).reshape(-1)
    low, high = finite_range(values)
    across, down = (width, height) if plain else (width * 2, height * 4)
    grid = np.zeros((down, across), bool)
    for column, part in enumerate(_columns(values, across)):
        part = part[np.isfinite(part)]
        if part.size:
            first, last = (_row(v, low, high, down) for v in (part.max(), part.min()))
            grid[first : last + 1, column] = True
    rows = ["".join("*" if dot else " " for dot in row) for row in grid] if plain else _braille(grid)
    labels = {0: "%11.4g" % high, len(rows) - 1: "%11.4g" % low}
    return "\n".join("%s  %s" % (labels.get(i, " " * 11), row.rstrip()) for i, row in enumerate(rows))


def _columns(values: np.ndarray, across: int) -> Sequence[np.ndarray]:
    """The values that fall into each column; few values are joined by straight lines."""
    if values.size >= across:
        return np.array_split(values, across)
    if values.size < 2:
        return [values]
    at = np.interp(np.linspace(0, values.size - 1, across), np.arange(values.size), values)
    return [at[max(0, i - 1) : i + 1] for i in range(across)]


def _row(value: float, low: float, high: float, down: int) -> int:
    return down // 2 if high <= low else int(round((down - 1) * (high - value) / (high - low)))


def _braille(grid: np.ndarray) -> List[str]:
    down, across = grid.shape
    rows = []
    for top in range(0, down, 4):
        codes = [sum(_BRAILLE[y][x] for y in range(4) for x in range(2) if grid[top + y, left + x])
                 for left in range(0, across, 2)]  # fmt: skip
        rows.append("".join(chr(0x2800 + code) if code else " " for code in codes))
    return rows


def map_text(
    picture: np.ndarray, limits: Optional[Tuple[float, float]] = None, width: int = 72, plain: bool = False
) -> str:
    """A 2-d array in shades, two characters an element, made smaller to fit; `!` where it is not finite."""
    small = shrink(np.asarray(picture, np.float64)[None], width // 2)[0]
    low, high = finite_range(picture) if limits is None else limits
    shades = _PLAIN_SHADES if plain else _SHADES
    lines = ["".join(_shade(value, low, high, shades) * 2 for value in row).rstrip() for row in small]
    return "\n".join(lines + ["%s %.5g  to  %s %.5g" % ("blank", low, shades[-1] * 2, high)])


def _shade(value: float, low: float, high: float, shades: Sequence[str]) -> str:
    if not np.isfinite(value):
        return "!"
    share = (value - low) / (high - low) if high > low else 0.0
    return shades[int(round(min(max(share, 0.0), 1.0) * (len(shades) - 1)))]


def map_colours(picture: np.ndarray, limits: Tuple[float, float], palette: Palette, width: int = 72) -> str:
    """A 2-d array in true colours, two elements above each other in one character."""
    small = shrink(np.asarray(picture, np.float64)[None], width)[0]
    colours = np.array(palette, np.uint8)[to_indices(small, *limits)]
    if len(colours) % 2:
        colours = np.concatenate([colours, colours[-1:]])
    lines = []
    for upper, lower in zip(colours[::2], colours[1::2]):
        cells = ["\033[38;2;%d;%d;%d;48;2;%d;%d;%dm\u2580" % (tuple(u) + tuple(v)) for u, v in zip(upper, lower)]
        lines.append("".join(cells) + "\033[0m")
    return "\n".join(lines + ["%.5g to %.5g" % limits])


def inline_image(png: bytes, variables: Mapping[str, str]) -> str:
    """The escape sequence that shows a PNG in kitty, iTerm2 or WezTerm; empty for other terminals."""
    data = base64.b64encode(png).decode("ascii")
    if "kitty" in variables.get("TERM", "") or variables.get("TERM_PROGRAM") == "ghostty":
        parts = [data[i : i + 4096] for i in range(0, len(data), 4096)]
        heads = ["a=T,f=100,m=%d" % (len(parts) > 1)] + ["m=%d" % (i < len(parts) - 1) for i in range(1, len(parts))]
        return "".join("\033_G%s;%s\033\\" % pair for pair in zip(heads, parts))
    if variables.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
        return "\033]1337;File=inline=1;width=40:%s\a" % data
    return ""
