"""Commands that put values into the workspace."""
import numpy as np

from ...blob import INT8
from ...errors import InputError
from ...render import blob_label, quote, summary_line
from ..arrays import read_value
from ..context import Context
from ..registry import command
from ..types import BlobName, FilePath


@command()
def feed(context: Context, blob: BlobName, file: FilePath, *, as_float32: bool = False) -> str:
    """Feed a blob from a .npy file, the array of its name in a .npz file, a TensorProto (.pb) or a capture.

    --as-float32 turns the values into float32 first, which is what most operators take.
    """
    value = read_value(context, file, blob)
    if value.array is None or value.kind == INT8:
        raise InputError("%s holds no array for %s" % (quote(file), blob_label(blob)))
    array = value.array.astype(np.float32) if as_float32 else value.array
    context.session.feed(blob, array)
    return "%s  %s" % (blob_label(blob), summary_line(context.session.summary(blob)))
