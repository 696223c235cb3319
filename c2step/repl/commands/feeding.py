"""Commands that put values into the workspace."""

from ...blob import INT8
from ...errors import InputError
from ...importer.inputs import Fed, check_inputs
from ...render import blob_label, quote, summary_line
from ..arrays import read_value, taken
from ..context import Context
from ..registry import command
from ..types import BlobName, FilePath


@command()
def feed(context: Context, blob: BlobName, file: FilePath, *, as_float32: bool = False) -> str:
    """Feed a blob from a file.

    Before the first operator has run this is the input that `restart` feeds again; later it is a new version.

    feed data photo.npy              an array
    feed data inputs.npz             the array of that name
    feed data tensor.pb              an ONNX TensorProto
    feed conv1 captured/             the blob in a capture
    feed data x.npy --as-float32     cast float64 values to float32, which most operators want
    """
    value = read_value(context, file, blob)
    if value.array is None or value.kind == INT8:
        raise InputError("%s holds no array for %s" % (quote(file), blob_label(blob)))
    fed = check_inputs(Fed({blob: value.array}, [], {}), context.session.model.inputs, context.blob_names(), as_float32)
    context.session.feed(blob, fed.arrays[blob])
    label = blob_label(blob, context.session.version(blob))
    lines = ["%s  %s" % (label, summary_line(context.session.summary(blob))), *taken(file, blob, value), *fed.notes]
    return "\n".join(lines)
