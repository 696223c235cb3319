"""A PNG of palette indices: enough for pictures of blobs, without an imaging library."""

import base64
import struct
import zlib
from itertools import chain
from typing import Sequence, Tuple

import numpy as np

from .palettes import GAP

__all__ = ["data_uri", "encode"]


def encode(indices: np.ndarray, palette: Sequence[Tuple[int, int, int]]) -> bytes:
    """PNG bytes of a 2-d uint8 array of palette indices; the index GAP is transparent."""
    height, width = indices.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with filter type 0
    lines[:, 1:] = indices
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = bytes(chain.from_iterable(palette))
    opaque = bytes([255] * GAP + [0])
    chunks = ((b"IHDR", header), (b"PLTE", colours), (b"tRNS", opaque), (b"IDAT", zlib.compress(lines.tobytes())))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks + ((b"IEND", b""),))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) & 0xFFFFFFFF)


def data_uri(png: bytes) -> str:
    """The address under which a page holds the picture itself."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
