"""Ordinary Caffe2 code, as somebody wrote it: every way in which it runs operators; prints a digest of all results.

Run as a script, or with --wrapped DIR to wrap the middle of it.
"""

import contextlib
import hashlib
import sys

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace


def network():
    """A small net with convolutions, seeded Dropout and a fill that draws from a seed."""
    model = model_helper.ModelHelper(name="small", init_params=False)
    conv = brew.conv(model, "data", "conv1", 1, 4, 3, pad=1)
    brew.relu(model, conv, conv)
    brew.conv(model, conv, "conv2", 4, 2, 3)
    brew.max_pool(model, "conv2", "pool", kernel=2, stride=2)
    brew.dropout(model, "pool", "drop", ratio=0.5, is_test=0)
    model.net.Conv(["drop", "conv3_w", "conv3_b"], "out", kernel=1)
    for op in model.net.Proto().op:
        if op.type == "Dropout":
            op.device_option.random_seed = 7
    return model.net


def feed():
    """Weights and data, the same every time."""
    random = np.random.RandomState(0)
    shapes = {
        "conv1_w": (4, 1, 3, 3), "conv1_b": (4,), "conv2_w": (2, 4, 3, 3), "conv2_b": (2,),
        "conv3_w": (2, 2, 1, 1), "conv3_b": (2,), "data": (2, 1, 8, 8),
    }  # fmt: skip
    for name, shape in shapes.items():
        workspace.FeedBlob(name, random.randn(*shape).astype(np.float32))


def predictor():
    """A C++ predictor over nets of its own."""
    init = caffe2_pb2.NetDef(name="init")
    for name in ("conv1_w", "conv1_b"):
        array = workspace.FetchBlob(name)
        op = init.op.add(type="GivenTensorFill", output=[name])
        op.arg.add(name="shape").ints.extend(array.shape)
        op.arg.add(name="values").floats.extend(array.reshape(-1).tolist())
    net = caffe2_pb2.NetDef(name="predict", external_input=["data", "conv1_w", "conv1_b"], external_output=["y"])
    net.type, net.num_workers = "dag", 2  # Caffe2 runs it while Python waits
    op = net.op.add(type="Conv", input=["data", "conv1_w", "conv1_b"], output=["y"])
    op.arg.add(name="kernel").i = 3
    return workspace.Predictor(init, net)


def main(digest, context):
    """Everything, the middle of it inside `context`; `digest` takes every value that comes out."""

    def look():
        for name in sorted(workspace.Blobs()):
            try:
                value = workspace.FetchBlob(name)
            except RuntimeError:  # the operator that failed never wrote it
                value = np.zeros(0)
            digest(name, value if isinstance(value, np.ndarray) else np.zeros(0))

    feed()
    early = core.Net("early")
    early.Conv(["data", "conv1_w", "conv1_b"], "early_y", kernel=3)
    workspace.CreateNet(early)
    net = network()
    with context:
        feed()
        workspace.CreateNet(net)
        for _ in range(3):
            workspace.RunNet(net)
            look()
        workspace.RunNet(net.Name(), 2)
        workspace.RunNet(early)
        once = core.Net("once")
        once.Conv(["data", "conv1_w", "conv1_b"], "once_y", kernel=3)
        workspace.RunNetOnce(once)
        workspace.RunOperatorOnce(
            core.CreateOperator("Conv", ["data", "conv1_w", "conv1_b"], ["alone_y"], kernel=3, pad=2)
        )
        plan = core.Plan("plan")
        step = core.Net("planned")
        step.Conv(["data", "conv1_w", "conv1_b"], "plan_y", kernel=3)
        plan.AddStep(core.ExecutionStep("step", step, 2))
        workspace.RunPlan(plan)
        look()
        for output in predictor().run([workspace.FetchBlob("data")]):
            digest("predictor", output)
        try:
            workspace.RunOperatorOnce(core.CreateOperator("Conv", ["data", "conv2_w"], ["bad"], kernel=3))
        except RuntimeError as error:
            digest("error", np.array([len(str(error).split("\n")[0])]))
    workspace.RunNet(net)
    look()


if __name__ == "__main__":
    total = hashlib.sha256()
    if len(sys.argv) > 2:
        import c2step

        context = c2step.wrapped({"Conv", "MaxPool"}, save=sys.argv[2])
    else:
        context = contextlib.nullcontext()
    main(lambda name, array: total.update(name.encode() + str(array.dtype).encode() + array.tobytes()), context)
    print(total.hexdigest())
