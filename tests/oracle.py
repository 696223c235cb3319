"""The oracle of the stepping tests: Caffe2's own RunNet in a bare script, in a process of its own."""

import json
import os
import subprocess
import sys
from typing import Dict

import numpy as np

SCRIPT = """
import json, sys
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

init, predict, inputs, out, times = sys.argv[1:]
net = caffe2_pb2.NetDef()
if init != "-":
    net.ParseFromString(open(init, "rb").read())
    assert workspace.RunNetOnce(net)
for name, array in np.load(inputs).items():
    workspace.FeedBlob(name, array)
net = caffe2_pb2.NetDef()
net.ParseFromString(open(predict, "rb").read())
net.name = net.name or "net"
workspace.CreateNet(net)
for _ in range(int(times)):
    workspace.RunNet(net.name)
values = {}
for name in sorted(workspace.Blobs()):
    value = workspace.FetchBlob(name)
    if isinstance(value, np.ndarray) and value.dtype != object:
        values[name] = value
keys = {"b%d" % i: name for i, name in enumerate(values)}
np.savez(out, **{key: values[name] for key, name in keys.items()})
json.dump(keys, open(out + ".json", "w"))
"""


def run_net(init: str, predict: str, inputs: str, folder: str, times: int = 1) -> Dict[str, np.ndarray]:
    """Every tensor that is in the workspace after `times` runs of predict_net, by blob name."""
    out = os.path.join(str(folder), "oracle.npz")
    command = [sys.executable, "-c", SCRIPT, init or "-", predict, inputs, out, str(times)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=str(folder))
    with open(out + ".json") as file:
        keys = json.load(file)
    with np.load(out) as archive:
        return {name: archive[key] for key, name in keys.items()}


def same_bytes(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays are the same in dtype, shape and every bit."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
