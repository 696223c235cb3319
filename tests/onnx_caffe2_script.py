"""Many small models through onnx_caffe2 in one process of the Caffe2 that has it: RunNet's values, or why none.

python onnx_caffe2_script.py FOLDER: each FOLDER/NAME.onnx with its inputs NAME.npz gives an entry of FOLDER/made.json
and its outputs in NAME.out.npz.
"""

import glob
import json
import os
import sys

import numpy as np


def run(path):
    """What became of a model."""
    from caffe2.python import workspace

    from c2step.errors import C2StepError
    from c2step.importer import onnx_caffe2
    from c2step.importer.onnxfile import load

    made = onnx_caffe2.convert(load(path), lambda index, node: None, strict=False)
    said = {"notes": made.notes, "findings": [list(found[:4]) + [found.message] for found in made.findings]}
    try:
        if made.refused:
            raise C2StepError("refused")
        workspace.ResetWorkspace()
        given = np.load(path[: -len("onnx")] + "npz")
        for name, array in list(made.blobs()) + [(name, given[name]) for name in given.files]:
            workspace.FeedBlob(name, array)
        workspace.CreateNet(made.predict, True)
        workspace.RunNet(made.predict.name)
        values = [workspace.FetchBlob(name) for name in made.predict.external_output]
        np.savez(path[: -len("onnx")] + "out.npz", *values)
    except (RuntimeError, C2StepError) as error:
        said["error"] = str(error)
    return said


def main(folder):
    """All of them."""
    found = {os.path.basename(path)[: -len(".onnx")]: run(path) for path in sorted(glob.glob(folder + "/*.onnx"))}
    with open(os.path.join(folder, "made.json"), "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1])
