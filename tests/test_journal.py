"""Lines that are made by hand say what json.dumps would say."""

import json

import numpy as np
import pytest

from c2step.blob import TENSOR, Blob
from c2step.history import Output, Step
from c2step.journal import Journal
from c2step.net import BlobVersion, OnnxNode, Operator
from c2step.unsummarised import Unsummarised

OP = Operator(7, "Add", 'a "name" of 100%s', ("x", "é\n"), ("y",), node=OnnxNode(3, "", "Add"))
VALUES = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(True), np.float64([1e300, -1e300, 1e300]),
          np.array([np.nan, np.inf, 1], np.float16), np.array([np.nan])]  # fmt: skip


def step_of(array, file):
    figures = Unsummarised().add(str(array.dtype), array.shape, array.tobytes())
    reads = (BlobVersion("x", 0), BlobVersion("é\n", 2))
    return Step(5, 2, 7, OP, "ok", None, reads, (Output("y", 3, TENSOR, figures, file),), 1.25e-06)


@pytest.mark.parametrize("array", VALUES, ids=str)
@pytest.mark.parametrize("file", [None, "blobs.pack#160"])
def test_a_line_is_the_step_as_json(array, file):
    step = step_of(array, file)
    said, expected = json.loads(Journal().line(step)), json.loads(json.dumps(step.to_json()))
    if file:  # whoever reads the bytes can make it
        del expected["outputs"][0]["summary"]
    else:
        assert expected["outputs"][0]["summary"] == json.loads(json.dumps(Blob("y", TENSOR, array).summary().to_json()))
    assert json.dumps(said, sort_keys=True) == json.dumps(expected, sort_keys=True)
