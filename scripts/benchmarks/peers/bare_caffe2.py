"""Caffe2 as a script uses it, without c2step: RunNet, RunOperatorOnce, FetchBlob, the stock ONNX backend."""

import os
import sys
import types
import warnings

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.modules.setdefault("onnx.optimizer", types.ModuleType("onnx.optimizer"))  # gone from onnx, imported by the backend
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core, workspace
    from caffe2.python.onnx.backend import Caffe2Backend

from serving import clock, serve  # noqa: E402

NETS = {}


def read(path):
    """A NetDef from a file."""
    net = caffe2_pb2.NetDef()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return net


def load(name, folder, inputs):
    """Run init_net of a folder, feed the inputs of an .npz, create predict_net; from now on it is `name`."""
    workspace.SwitchWorkspace(name, True)
    workspace.ResetWorkspace()
    init = os.path.join(folder, "init_net.pb")
    if os.path.exists(init):
        workspace.RunNetOnce(read(init))
    for blob, array in np.load(inputs).items():
        workspace.FeedBlob(blob, array)
    net = read(os.path.join(folder, "predict_net.pb"))
    net.name = name
    workspace.CreateNet(net)
    NETS[name] = net


def run(name, times=1):
    """RunNet so many times; the seconds of one."""
    workspace.SwitchWorkspace(name)
    return clock(lambda: [workspace.RunNet(name) for _ in range(times)])[0] / times


def once(name, index, times=1):
    """RunOperatorOnce of one operator so many times; the seconds of one."""
    workspace.SwitchWorkspace(name)
    op = NETS[name].op[index]
    return clock(lambda: [workspace.RunOperatorOnce(op) for _ in range(times)])[0] / times


def every(name):
    """RunOperatorOnce of every operator; the seconds of all."""
    workspace.SwitchWorkspace(name)
    return clock(lambda: [workspace.RunOperatorOnce(op) for op in NETS[name].op])[0]


def stepped(name):
    """Every operator as a net of its own, made beforehand, and a summary of each output; the seconds of all."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3))
    from c2step.blob import summarize_tensor
    from c2step.workspace.reader import view

    workspace.SwitchWorkspace(name)
    space = workspace.C.Workspace.current
    nets = [alone(name, index, op) for index, op in enumerate(NETS[name].op)]

    def work():
        for net, outputs in nets:
            workspace.C.run_net(net, 1, False)
            for found in [view(space, blob) for blob in outputs]:
                if found is not None:
                    summarize_tensor(found.array)

    work()
    return clock(work)[0]


def alone(name, index, op):
    """The name of a net of this operator alone, and what the operator writes."""
    net = caffe2_pb2.NetDef(name="%s/%d" % (name, index), type="simple", op=[op])
    workspace.CreateNet(net, overwrite=True)
    return net.name, list(op.output)


def fetch(name, blob, path):
    """Save a blob as .npy."""
    workspace.SwitchWorkspace(name)
    np.save(path, workspace.FetchBlob(blob))


def dump(name, folder):
    """The script that people write: every operator alone, every output fetched, saved and described."""
    workspace.SwitchWorkspace(name)
    return clock(lambda: _dump(NETS[name], folder))[0]


def _dump(net, folder):
    for index, op in enumerate(net.op):
        workspace.RunOperatorOnce(op)
        for slot, blob in enumerate(op.output):
            value = workspace.FetchBlob(blob)
            if isinstance(value, np.ndarray):
                np.save(os.path.join(folder, "%d-%d.npy" % (index, slot)), value)
                np.mean(value), np.std(value)


class Stock(Caffe2Backend):
    """The stock backend with the split of init and predict that onnx.optimizer made, before onnx lost it."""

    @staticmethod
    def optimize_onnx(model, init=False, predict=False):
        """For the init part the model without its nodes, its initializers as outputs, as `split_init` left it."""
        kept = onnx.ModelProto()
        kept.CopyFrom(model)
        if init:
            weights = {tensor.name for tensor in kept.graph.initializer}
            del kept.graph.node[:], kept.graph.output[:]
            kept.graph.output.extend(value for value in kept.graph.input if value.name in weights)
        return kept


def stock_open(path):
    """Read an ONNX file, convert it as Caffe2's own backend does, run init_net; the seconds of all that."""
    workspace.SwitchWorkspace("stock", True)
    workspace.ResetWorkspace()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clock(lambda: initialised(path))[0]


def initialised(path):
    """predict_net of an ONNX file by Caffe2's own backend, once init_net has run."""
    model = onnx.load(path)
    known = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:  # without this the backend takes no model of today
        if tensor.name not in known:
            model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    init, predict = Stock.onnx_graph_to_caffe2_net(model, opset_version=model.opset_import[0].version)
    workspace.RunNetOnce(init)
    return predict


def write_chain(folder, count):
    """A net of `count` tiny operators, Relu and Add in turn, on 8 floats, and its input."""
    net = core.Net("chain")
    blob = "x"
    for index in range(count):
        made = "y%d" % index
        if index % 2:
            net.Add([blob, "x"], [made])
        else:
            net.Relu([blob], [made])
        blob = made
    net.Proto().external_output.append(blob)
    with open(os.path.join(folder, "predict_net.pb"), "wb") as file:
        file.write(net.Proto().SerializeToString())
    np.savez(os.path.join(folder, "input.npz"), x=np.linspace(-1, 1, 8, dtype=np.float32))


def both(name, path, inputs):
    """RunNet, and onnxruntime with every value of the ONNX file exposed; the seconds of all from file to values."""
    return clock(lambda: exposed(path, inputs))[0] + run(name)


def exposed(path, inputs):
    """Every value of an ONNX file, from onnxruntime."""
    import onnxruntime

    model = onnx.load(path)
    known = {value.name for value in model.graph.output}
    values = [value for node in model.graph.node for value in node.output if value and value not in known]
    model.graph.output.extend(onnx.ValueInfoProto(name=value) for value in values)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(np.load(inputs)))


def versions():
    """What is measured against."""
    import torch

    return {"torch": str(torch.__version__), "threads": torch.get_num_threads()}


if __name__ == "__main__":
    known = (load, run, once, every, stepped, fetch, dump, stock_open, both, write_chain, versions)
    serve({f.__name__: f for f in known})
