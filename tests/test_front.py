"""The front runs on an interpreter without Caffe2, newer than any that could hold it."""

import json
import os
import subprocess
import sys

CODE = """
import json, sys
import c2step
model, inputs, runtime = sys.argv[1:]
with c2step.open(model, [inputs], runtime="python:" + runtime) as session:
    stop = session.cont()
    session.back(3)
    session.cont()
    found = session.fetch("prob").array
    print(json.dumps([stop.reason, found.tolist(), sorted({"torch", "onnx", "caffe2"} & set(sys.modules))]))
"""


def test_stepping_from_a_newer_python(front_only, models, checkout):
    import numpy as np

    folder = os.path.join(models, "digits_cnn")
    words = [front_only, "-c", CODE, folder + "/model.onnx", folder + "/input.npz", sys.executable]
    out = subprocess.run(words, check=True, stdout=subprocess.PIPE, cwd=checkout).stdout
    reason, values, heavy = json.loads(out)
    assert (reason, heavy) == ("end", [])
    np.testing.assert_allclose(values, np.load(folder + "/expected.npz")["prob"], rtol=1e-4, atol=1e-6)


def test_blame_from_a_newer_python(front_only, models, checkout):
    folder = os.path.join(models, "digits_ceil")
    words = [front_only, "-m", "c2step", "blame", folder + "/model.onnx", "--input", folder + "/input.npz"]
    words += ["--against", "onnxruntime", "--runtime", "python:" + sys.executable, "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, cwd=checkout)
    found = json.loads(done.stdout)
    assert done.returncode == 1 and [origin["type"] for origin in found["origins"]] == ["MaxPool"]


def test_an_older_caffe2_steps_the_same_model(older_caffe2, models):
    import numpy as np

    import c2step

    folder = os.path.join(models, "digits_lstm")
    with c2step.open(folder + "/model.onnx", [folder + "/input.npz"], runtime="python:" + older_caffe2) as session:
        assert session.versions_of_runtime["torch"].startswith("1.2")
        assert session.cont().reason == "end"
        found = session.fetch("prob").array
    np.testing.assert_allclose(found, np.load(folder + "/expected.npz")["prob"], rtol=1e-4, atol=1e-6)
