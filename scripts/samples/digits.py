"""The handwritten digits that ship in scikit-learn, split into training and held-out ones."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

HELD_OUT = 360


class Digits(NamedTuple):
    """Images of shape (count, 1, 8, 8) from 0 to 1 in sixteenths (exact in any float), and their labels."""

    images: np.ndarray
    labels: np.ndarray

    def rows(self) -> np.ndarray:
        """The images as sequences: (8 rows in time, count, 8 pixels)."""
        return np.ascontiguousarray(self.images[:, 0].transpose(1, 0, 2))


def training() -> Digits:
    """All but the last 360 digits."""
    return _digits(slice(None, -HELD_OUT))


def held_out() -> Digits:
    """The last 360 digits: other writers' hands, never trained on."""
    return _digits(slice(-HELD_OUT, None))


def _digits(part: slice) -> Digits:
    data = load_digits()
    images = (data.images[part] / 16).astype(np.float32)[:, None]
    return Digits(np.ascontiguousarray(images), data.target[part].astype(np.int64))
