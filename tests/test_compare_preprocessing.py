"""Seeded preprocessing is found again, in words that people use; what is no preprocessing is not explained."""

from typing import Callable

import numpy as np
import pytest

from c2step.compare.preprocessing import explain_inputs

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
PICTURE = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")
BATCH = PICTURE[None]


def normalised(x: np.ndarray) -> np.ndarray:
    """torchvision's preprocessing of an HWC picture."""
    return ((x / 255 - MEAN) / STD).astype("float32")


@pytest.mark.parametrize(
    "a, b, text",
    [
        (PICTURE, PICTURE.copy(), "b = a"),
        (PICTURE, PICTURE.astype("float32"), "b = a"),
        (PICTURE, PICTURE / 255, "b = a / 255"),
        (PICTURE / 255, PICTURE, "b = a * 255"),
        (PICTURE, BATCH.astype("float32"), "b = a"),
        (BATCH, PICTURE.transpose(2, 0, 1), "b = a, channels moved to the front (NHWC to NCHW)"),
        (PICTURE.transpose(2, 0, 1), PICTURE, "b = a, channels moved to the end (NCHW to NHWC)"),
        (PICTURE, PICTURE[..., ::-1], "b = a, channels reversed"),
        (
            PICTURE,
            normalised(PICTURE),
            "b = (a / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225], ImageNet's mean and std",
        ),
        (
            BATCH,
            normalised(PICTURE).transpose(2, 0, 1)[None],
            "b = (a / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225], ImageNet's mean and std"
            ", channels moved to the front (NHWC to NCHW)",
        ),
        (
            PICTURE,
            normalised(PICTURE)[..., ::-1],
            "b = (a / 255 - [0.406, 0.456, 0.485]) / [0.225, 0.224, 0.229], ImageNet's mean and std"
            ", channels reversed, numbers in the order after that",
        ),
        (
            PICTURE / 255,
            normalised(PICTURE),
            "b = (a - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225], ImageNet's mean and std",
        ),
        (
            normalised(PICTURE),
            PICTURE,
            "b = (a * [0.229, 0.224, 0.225] + [0.485, 0.456, 0.406]) * 255, ImageNet's mean and std",
        ),
        (PICTURE, PICTURE / 127.5 - 1, "b = (a / 255 - 0.5) / 0.5"),
        (PICTURE, PICTURE.astype("float32") - [103.939, 116.779, 123.68], "b = a - [103.9, 116.8, 123.7]"),
        (
            PICTURE,
            PICTURE[..., ::-1] - np.float32([103.939, 116.779, 123.68]),
            "b = a - [103.9, 116.8, 123.7], channels reversed, numbers in the order after that",
        ),
        (PICTURE, (PICTURE - 127.0) * 0.0078125, "b = (a / 255 - 0.498) / 0.502"),
        (PICTURE, PICTURE[4:36, 5:45], "b = a, cropped in the middle"),
        (PICTURE, PICTURE[1:33, 0:40] / 255, "b = a / 255, cropped from (1, 0) on"),
        (PICTURE, PICTURE[:, ::-1], "b = a, mirrored"),
        (PICTURE, PICTURE[::-1, :, ::-1], "b = a, upside down, channels reversed"),
        (PICTURE[4:36, 5:45] / 255, PICTURE, "a = b / 255, cropped in the middle"),
        (PICTURE, np.float16(PICTURE / 255), "b = a / 255"),
        (PICTURE[..., 0], PICTURE[..., 0] * 2.5 + 7, "b = a * 2.5 + 7"),
        (PICTURE, 255 - PICTURE, "b = a * -1 + 255"),
        (np.arange(6.0), np.arange(6.0) * 3, "b = a * 3"),
    ],
)
def test_it_is_found_again(a: np.ndarray, b: np.ndarray, text: str) -> None:
    assert explain_inputs(a, b) == text


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.random.RandomState(1).randint(0, 256, x.shape),
        lambda x: x**2,
        lambda x: np.sin(x),
        lambda x: (x[::2, ::2] + x[1::2, ::2]) / 2,
        lambda x: x.reshape(-1),
        lambda x: x[:0],
        lambda x: np.zeros_like(x),
        lambda x: np.full(x.shape, np.nan),
        lambda x: x.astype(str),
    ],
)
def test_what_is_no_preprocessing(change: Callable[[np.ndarray], np.ndarray]) -> None:
    x = PICTURE.astype("float64")
    assert explain_inputs(x, change(x)) is None


def test_one_wrong_pixel_is_enough() -> None:
    b = PICTURE / 255
    b[3, 4, 1] += 0.1
    assert explain_inputs(PICTURE, b) is None


def test_a_channel_of_one_value() -> None:
    a = PICTURE.copy()
    a[..., 2] = 7
    assert explain_inputs(a, a / 255) == "b = a / 255"
