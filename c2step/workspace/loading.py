"""Loads Caffe2's Python modules without their word about a GPU, which a wheel that was made slim says each time."""

import logging
from contextlib import contextmanager
from typing import Iterator

__all__ = ["without_gpu_words"]

# Of torch before 1.5 and after.
_WORDS = ("This caffe2 python run does not have GPU support", "This caffe2 python run failed to load cuda module")


@contextmanager
def without_gpu_words() -> Iterator[None]:
    """Inside, an import of Caffe2 does not say that it runs on the CPU; whatever else it says is said."""
    logger = logging.getLogger()  # it uses the root logger
    logger.addFilter(_is_other)
    try:
        yield
    finally:
        logger.removeFilter(_is_other)


def _is_other(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_WORDS)
