"""Operators cut out of a model run on their own, with nothing of ours, and do what they did in it."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import c2step
from c2step.cli import main
from c2step.errors import CaptureError, ExitStatus, UsageError
from c2step.references import open_npz
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from c2step.reproducing import make_repro
from oracle import same_bytes

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of onnx on older numpy


def opened(shared, *parts, **options):
    folder = os.path.join(shared, *parts)
    data = next(name for name in ("input.npz", "inputs.npz") if os.path.exists(os.path.join(folder, name)))
    return c2step.open(folder, [os.path.join(folder, data)], **options)


def alone(folder):
    """Run run.py in a process that cannot see c2step; its status and what it says."""
    script = "import sys, runpy; sys.modules['c2step'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script, os.path.join(str(folder), "run.py")], cwd="/",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60,
                          env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})  # fmt: skip
    return done.returncode, done.stdout


def test_the_first_conv_of_mnist(shared, tmp_path):
    golden = os.path.join(shared, "models", "mnist-cntk", "expected_ort.npz")
    with opened(shared, "models", "mnist-cntk", in_process=True) as session:
        session.until("Conv")
        index = session.position
        op = session.next_operator()
        session.step(4)
        repro = make_repro(session, str(index), str(tmp_path / "out"), open_npz(golden))
        values = [session.fetch(name, version).array for name, version in session.steps[index].inputs]
        written = session.fetch(op.outputs[0], 1).array
    assert (repro.reproduces, repro.expects) == (True, "outputs") and "same bytes" in repro.verdict
    status, said = alone(tmp_path / "out")
    assert status == 0 and said == "observed %s: the same bytes\n" % op.outputs[0]
    with open(str(tmp_path / "out" / "repro.json")) as file:
        about = json.load(file)
    assert about["versions"]["torch"].startswith("1.") and about["image"].startswith("c2step:1.")
    stored = [np.load(str(tmp_path / "out" / file)) for file in about["feed"].values()]
    assert all(same_bytes(a, b) for a, b in zip(stored, values)) and len(stored) == len(values)
    assert check_nets(tmp_path / "out", op.outputs[0], written)
    check_onnx(tmp_path / "out", op.outputs[0])
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "python run.py" in readme and about["image"] in readme and repro.verdict in readme


def check_nets(folder, name, value):
    """Whether the nets alone, init_net and predict_net, give the value; in text they are the same nets."""
    from caffe2.proto import caffe2_pb2
    from caffe2.python import workspace
    from google.protobuf import text_format

    workspace.SwitchWorkspace("test-repro", True)
    workspace.ResetWorkspace()
    for role in ("init_net", "predict_net"):
        with open(str(folder / (role + ".pb")), "rb") as file:
            net = caffe2_pb2.NetDef.FromString(file.read())
        assert text_format.Parse((folder / (role + ".pbtxt")).read_text(), caffe2_pb2.NetDef()) == net
        workspace.RunNetOnce(net)
    return same_bytes(workspace.FetchBlob(name), value)


def check_onnx(folder, name):
    """The backend test passes onnx's checker; onnxruntime gives other values: that is what this model is known for."""
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    model = onnx.load(str(folder / "model.onnx"))
    onnx.checker.check_model(model)
    tensors = {}
    for side in ("input", "output"):
        tensor = onnx.load_tensor(str(folder / "test_data_set_0" / (side + "_0.pb")))
        tensors[side] = (tensor.name, numpy_helper.to_array(tensor))
    run = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    (found,) = run.run(None, dict([tensors["input"]]))
    assert tensors["output"][0] == name and found.ndim == 4
    assert found.shape != tensors["output"][1].shape or np.abs(found - tensors["output"][1]).max() > 1e-3


def test_golden_outputs_are_written_and_compared(shared, tmp_path):
    with opened(shared, "models", "digits_cnn_bn-op9", in_process=True) as session:
        session.cont()
        last = session.model.predict_net.operators[-1]
        golden = open_npz(os.path.join(shared, "models", "digits_cnn_bn-op9", "expected_ort.npz"))
        repro = make_repro(session, last.outputs[0], str(tmp_path / "out"), golden)
    assert repro.reproduces
    assert any(note.startswith("golden %s" % last.outputs[0]) for note in repro.notes)
    (file,) = os.listdir(str(tmp_path / "out" / "golden"))
    assert same_bytes(np.load(str(tmp_path / "out" / "golden" / file)), golden.get(last.outputs[0]))
    import onnx
    from onnx import numpy_helper

    tensor = onnx.load_tensor(str(tmp_path / "out" / "test_data_set_0" / "output_0.pb"))
    assert same_bytes(numpy_helper.to_array(tensor), golden.get(last.outputs[0]))


def test_a_crash_and_a_failure_run_on_their_own(shared, tmp_path):
    with opened(shared, "cases", "25_int_div_by_zero_sigfpe") as session:
        session.cont()
        repro = make_repro(session, "Div", str(tmp_path / "crash"))
        assert session.position == 1 and session.fetch("s").array.tolist() == [5, 10]
    assert (repro.expects, repro.reproduces) == ("signal", True) and "SIGFPE" in repro.verdict
    assert alone(tmp_path / "crash")[0] == -8
    with opened(shared, "models", "mnist-cntk", in_process=True) as session:
        session.cont()
        repro = make_repro(session, str(session.position), str(tmp_path / "error"))
        message = session.steps and repro.verdict
    assert (repro.expects, repro.reproduces) == ("error", True) and "same error" in message
    status, said = alone(tmp_path / "error")
    assert status == 3 and "64 vs 256" in said


def test_a_range_in_place_with_strings_and_int8(shared, tmp_path):
    with opened(shared, "cases", "45_inplace_chain", in_process=True) as session:
        session.cont()
        count = session.net_size
        repro = make_repro(session, "1-%d" % (count - 1), str(tmp_path / "chain"))
        assert repro.reproduces and len(repro.operators) == count - 1
        session.back(count - 1)
        again = make_repro(session, "0-1", str(tmp_path / "chain"))
        assert again.expects == "nothing" and again.reproduces
    with opened(shared, "cases", "49_int8_blob", in_process=True) as session:
        session.cont()
        last = session.net_size - 1
        repro = make_repro(session, "%d-%d" % (last, last), str(tmp_path / "int8"))
        assert repro.reproduces


def test_the_group_of_an_onnx_node(shared, tmp_path):
    with opened(shared, "models", "digits_lstm-op9", in_process=True) as session:
        session.cont()
        repro = make_repro(session, "RecurrentNetwork", str(tmp_path / "lstm"))
        nodes = {op.node.index for op in repro.operators}
        assert len(nodes) == 1 and len(repro.operators) > 3
        whole = [op for op in session.model.predict_net.operators if op.node.index in nodes]
        assert list(repro.operators) == whole
    assert repro.reproduces
    assert os.path.exists(str(tmp_path / "lstm" / "model.onnx"))


def test_what_does_not_reproduce_is_said(shared, tmp_path):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"], external_output=["y"])
    op = net.op.add(type="Dropout", input=["x"], output=["y", "mask"])
    op.arg.add(name="is_test").i = 0
    with open(str(tmp_path / "predict_net.pb"), "wb") as file:
        file.write(net.SerializeToString())
    with c2step.open(str(tmp_path), {"x": np.ones(999, np.float32)}, in_process=True) as session:
        session.cont()
        repro = make_repro(session, "0", str(tmp_path / "random"))
    assert not repro.reproduces and "y: differs" in repro.verdict
    assert any("draws random numbers" in note for note in repro.notes)


def test_what_cannot_be_cut_out(shared, tmp_path):
    with opened(shared, "models", "digits_cnn_bn-op9", in_process=True) as session:
        with pytest.raises(UsageError, match="has not run"):
            make_repro(session, "5", str(tmp_path / "out"))
        with pytest.raises(UsageError, match="no operators 5-999"):
            make_repro(session, "5-999", str(tmp_path / "out"))
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(CaptureError, match="holds no repro"):
            make_repro(session, "0", str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["mine.txt"]


def test_the_command_line_and_the_prompt(shared, tmp_path, capsys):
    folder = os.path.join(shared, "cases", "25_int_div_by_zero_sigfpe")
    words = [folder, "--input", os.path.join(folder, "inputs.npz")]
    assert main(["repro", *words, "-o", str(tmp_path / "a")]) == ExitStatus.OK
    assert "SIGFPE" in capsys.readouterr().out
    assert main(["repro", *words, "--at", "s", "-o", str(tmp_path / "b")]) == ExitStatus.OK
    assert "same bytes" in capsys.readouterr().out
    with opened(shared, "cases", "25_int_div_by_zero_sigfpe") as session:
        environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
        commands = "continue; repro -o %s; skip; repro s -o %s" % (tmp_path / "c", tmp_path / "d")
        run_commands(session, commands, environment)
    said = environment.stdout.getvalue()
    assert "reproduces: its process ends with SIGFPE" in said and "the same bytes in every output" in said


def test_a_net_inside_reads_a_blob_that_its_operator_does_not_list(tmp_path):
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core

    x = np.array([[1, -2, 3]], np.float32)
    inside = caffe2_pb2.NetDef(name="inside", op=[core.CreateOperator("Scale", ["v"], ["v"], scale=1.5)])
    net = caffe2_pb2.NetDef(name="n", external_input=["x", "yes"], external_output=["v"])
    net.op.add().CopyFrom(core.CreateOperator("Copy", ["x"], ["v"]))
    net.op.add().CopyFrom(core.CreateOperator("If", ["yes"], ["v"], then_net=inside))
    path = tmp_path / "net.pb"
    path.write_bytes(net.SerializeToString())
    with c2step.open(predict_net=str(path), inputs={"x": x, "yes": np.array(True)}) as session:
        session.step()
        assert make_repro(session, "1", str(tmp_path / "before")).verdict.startswith("runs on its own")
        session.next()
        np.testing.assert_array_equal(session.fetch("v").array, x * np.float32(1.5))
        assert make_repro(session, "1", str(tmp_path / "after")).reproduces
    assert alone(tmp_path / "before")[0] == alone(tmp_path / "after")[0] == 0


def test_a_net_inside_reads_what_init_net_alone_names_and_writes_what_nobody_names(tmp_path):
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core

    x = np.array([[1, -2, 3]], np.float32)
    inside = caffe2_pb2.NetDef(name="inside", op=[core.CreateOperator("Add", ["x", "one"], ["w"], broadcast=1)])
    init = caffe2_pb2.NetDef(name="i", op=[core.CreateOperator("ConstantFill", [], ["one"], shape=[1], value=1.0)])
    net = caffe2_pb2.NetDef(name="n", external_input=["x", "yes"], external_output=["y"])
    net.op.add().CopyFrom(core.CreateOperator("If", ["yes"], [], then_net=inside))
    net.op.add().CopyFrom(core.CreateOperator("Copy", ["w"], ["y"]))
    for name, made in (("init.pb", init), ("net.pb", net)):
        (tmp_path / name).write_bytes(made.SerializeToString())
    nets = {"init_net": str(tmp_path / "init.pb"), "predict_net": str(tmp_path / "net.pb")}
    with c2step.open(inputs={"x": x, "yes": np.array(True)}, **nets) as session:
        session.next()
        assert [op.index for op in session.model.predict_net.consumers("one")] == [0]
        made = make_repro(session, "0", str(tmp_path / "out"))
        np.testing.assert_array_equal(session.fetch("w").array, x + 1)
    assert made.verdict == "reproduces: the same bytes in every output" and alone(tmp_path / "out")[0] == 0


def test_the_library(shared, tmp_path):
    with opened(shared, "cases", "45_inplace_chain", in_process=True) as session:
        session.step(2)
        for name in ("a", "b"):
            assert c2step.repro(session, "0-1", str(tmp_path / name)).reproduces
