"""quant, channels and bench, against numpy, onnxruntime and Caffe2 itself."""

import json
import os

import numpy as np
import pytest

import c2step
from c2step.analyses.bench import Bench, Timing, bench, flop
from c2step.analyses.channels import channels
from c2step.analyses.quant import left_out, quant
from c2step.blob import INT8, TENSOR, Blob
from c2step.capture import Capture
from c2step.cli import main
from c2step.cli.bench import _lines as bench_lines
from c2step.errors import OperatorError, WorkerDied, WorkerTimeout
from c2step.net import Operator
from c2step.references import Reference, open_capture
from c2step.stepper import Keep, Stop


def reference(**blobs):
    made = Reference("test")
    for name, blob in blobs.items():
        made.add(name, 1, lambda blob=blob: blob)
    return made


# -- quant -----------------------------------------------------------------------------------------


def test_snr_scale_and_what_is_cut_off():
    real = np.linspace(-1, 3, 1000, dtype=np.float32)
    scale, zero = 0.01, 100
    stored = np.clip(np.rint(real / scale) + zero, 0, 255).astype(np.uint8)
    int8 = Blob("x", INT8, stored, scale, zero)
    (found,) = quant(reference(x=Blob("x", TENSOR, real)), reference(x=int8))
    theirs = (stored.astype(np.float64) - zero) * scale
    noise = np.square(real - theirs).sum()
    assert found.snr == pytest.approx(10 * np.log10(np.square(real.astype(float)).sum() / noise), rel=1e-5)
    assert (found.scale, found.zero_point, found.dtype) == (scale, zero, "uint8")
    assert found.saturated == pytest.approx((real > 1.555).mean())


def test_plain_integers_get_their_line_from_the_dequantised_values():
    real = np.random.RandomState(0).randn(500).astype(np.float32)
    stored = np.clip(np.rint(real / np.float32(0.05)) + 3, -128, 127).astype(np.int8)
    back = ((stored.astype(np.int32) - 3) * np.float32(0.05)).astype(np.float32)
    other = reference(
        y_QuantizeLinear_Output=Blob("q", TENSOR, stored), y_DequantizeLinear_Output=Blob("d", TENSOR, back)
    )
    (found,) = quant(reference(y=Blob("y", TENSOR, real)), other)
    assert found.scale == pytest.approx(0.05, rel=1e-5) and found.zero_point == 3 and found.saturated == 0


def quantised(folder, made, form):
    """The digits model as onnxruntime's static quantiser writes it in one of its two formats."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):
        left = [dict(np.load(folder + "/input.npz"))]

        def get_next(self):
            return self.left.pop() if self.left else None

    quantize_static(folder + "/model.onnx", made, Reader(), quant_format=QuantFormat[form])


def runtime_values(path, names, given):
    """Inner values of an ONNX file, from onnxruntime without optimisations."""
    import onnx
    import onnxruntime

    model = onnx.load(path)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return dict(zip(names, session.run(list(names), given)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "form, ending, names",
    [
        ("QDQ", "_QuantizeLinear_Output", ("digits", "conv1", "relu1", "pool1", "flat", "fc")),
        ("QOperator", "_quantized", ("digits", "conv1", "pool1", "conv2", "flat", "fc", "prob")),
    ],
)
def test_a_model_that_onnxruntime_quantised(models, tmp_path, capsys, form, ending, names):
    import onnx

    folder, made = os.path.join(models, "digits_cnn"), str(tmp_path / "int8.onnx")
    quantised(folder, made, form)
    assert main(["quant", folder + "/model.onnx", made, "--input", folder + "/input.npz", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {row["blob"]: row for row in told["blobs"]}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(made).graph.initializer}
    given = dict(np.load(folder + "/input.npz"))
    real = dict(runtime_values(folder + "/model.onnx", [n for n in names if n not in given], given), **given)
    stored = runtime_values(made, [name + ending for name in names], given)
    for name in names:
        scale, zero = float(constants[name + "_scale"]), int(constants[name + "_zero_point"])
        theirs = (stored[name + ending].astype(np.float64) - zero) * scale
        noise = np.square(real[name] - theirs).sum()
        assert found[name]["scale"] == pytest.approx(scale) and found[name]["zero_point"] == zero, name
        assert found[name]["dtype"] == str(stored[name + ending].dtype)
        assert found[name]["max_abs"] == pytest.approx(np.abs(real[name] - theirs).max(), rel=1e-3)
        wanted = 10 * np.log10(np.square(real[name].astype(float)).sum() / noise)
        assert found[name]["snr"] == pytest.approx(wanted, abs=1e-3), name
    if form == "QOperator":  # what stays float in the file has no scale
        assert {found[name]["scale"] for name in ("bn1", "relu1", "pool2")} == {None}
    else:  # folded away
        assert told["not_compared"] == dict.fromkeys(("bn1", "bn2"), "only the float side has it")
        assert "conv1_b" in told["only_in_b"]


@pytest.mark.filterwarnings("ignore")
def test_scales_that_are_computed_and_a_node_without_a_kernel(models, tmp_path, capsys):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder, made = os.path.join(models, "digits_cnn"), str(tmp_path / "dynamic.onnx")
    quantize_dynamic(folder + "/model.onnx", made, weight_type=QuantType.QInt8)
    assert main(["quant", folder + "/model.onnx", made, "--input", folder + "/input.npz", "--json"]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    (digits,) = [row for row in told["blobs"] if row["blob"] == "digits"]
    image = np.load(folder + "/input.npz")["digits"]
    assert digits["scale"] == pytest.approx((image.max() - min(image.min(), 0)) / 255)
    assert digits["zero_point"] == 0 and digits["dtype"] == "uint8"
    assert any("ConvInteger" in note and "no kernel" in note for note in told["notes"])
    assert "no kernel, computed by" in shown.err


def test_integers_without_a_known_scale_are_not_compared():
    real = np.random.RandomState(0).rand(40).astype(np.float32)
    stored = np.rint(real / 0.06).astype(np.uint8)
    floats = reference(y=Blob("y", TENSOR, real), z=Blob("z", TENSOR, real))
    other = reference(y_quantized=Blob("q", TENSOR, stored), z_quantized=Blob("q", TENSOR, stored),
                      z=Blob("z", TENSOR, real), w=Blob("w", TENSOR, real))  # fmt: skip
    (found,) = quant(floats, other)
    assert (found.blob, found.scale, found.dtype) == ("z", None, "float32")  # the float values before they were cut
    left = left_out(floats, other)
    assert left.reasons == {"y": "the scale of y_quantized is not known"} and left.others == ["w"]


def test_a_caffe2_int8_net(tmp_path, capsys):
    from caffe2.proto import caffe2_pb2

    x = np.random.RandomState(0).rand(1, 6, 6, 4).astype(np.float32)
    np.save(str(tmp_path / "x.npy"), x)
    for name, types in (("float", ("Copy", "Relu", "Copy")), ("int8", ("Int8Quantize", "Int8Relu", "Int8Dequantize"))):
        net = caffe2_pb2.NetDef(name=name, external_input=["x"], external_output=["c"])
        for kind, (before, after) in zip(types, ("xa", "ab", "bc")):
            op = net.op.add(type=kind, input=[before], output=[after])
            if kind in ("Int8Quantize", "Int8Relu"):
                op.arg.add(name="Y_scale", f=1 / 255)
                op.arg.add(name="Y_zero_point", i=0)
        (tmp_path / (name + ".pb")).write_bytes(net.SerializeToString())
        c2step.dump(None, {"x": x}, str(tmp_path / name), predict_net=str(tmp_path / (name + ".pb")))
    assert main(["quant", str(tmp_path / "float"), str(tmp_path / "int8"), "--json"]) == 0
    found = {row["blob"]: row for row in json.loads(capsys.readouterr().out)["blobs"]}
    assert found["a"]["scale"] == pytest.approx(1 / 255) and found["a"]["dtype"] == "uint8"
    theirs = np.clip(np.rint(x * 255), 0, 255) / 255
    wanted = 10 * np.log10(np.square(x.astype(float)).sum() / np.square(x - theirs).sum())
    assert found["c"]["snr"] == pytest.approx(wanted, abs=0.1) and found["c"]["scale"] is None


def test_nothing_in_common_is_an_error(tmp_path, capsys):
    np.savez(str(tmp_path / "a.npz"), a=np.ones(2, np.float32))
    np.savez(str(tmp_path / "b.npz"), b=np.ones(2, np.float32))
    assert main(["quant", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]) == 2
    assert "--names" in capsys.readouterr().err


# -- channels --------------------------------------------------------------------------------------


def test_dead_and_weak_channels_over_several_inputs(tmp_path, capsys):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"])
    net.op.add(type="Relu", input=["x"], output=["y"])
    (tmp_path / "n.pb").write_bytes(net.SerializeToString())
    arrays = [np.random.RandomState(seed).rand(2, 5, 3, 3).astype(np.float32) + 0.1 for seed in (0, 1)]
    for i, array in enumerate(arrays):
        array[:, 1] = -1  # dead behind Relu
        array[:, 3] *= 1e-3  # weak
        array[:, 4] = -1 if i == 0 else array[:, 4]  # dead for one input alone
        c2step.dump(None, {"x": array}, str(tmp_path / str(i)), predict_net=str(tmp_path / "n.pb"))
    (found,) = channels([Capture(str(tmp_path / str(i))) for i in (0, 1)])
    assert (found.dead, found.weak, found.captures) == ([1], [3], 2)
    both = np.maximum(np.concatenate(arrays), 0).astype(np.float64)
    assert found.mean == pytest.approx(list(both.mean((0, 2, 3))))
    assert found.zeros == pytest.approx(list((both == 0).mean((0, 2, 3))))
    assert main(["channels", str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    assert "dead 1; weak 3" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32"])
def test_the_largest_of_a_channel_is_that_of_its_real_numbers(tmp_path, dtype):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"])
    net.op.add(type="Copy", input=["x"], output=["y"])
    (tmp_path / "n.pb").write_bytes(net.SerializeToString())
    limits = np.iinfo(dtype) if dtype != "float32" else np.finfo(dtype)
    array = np.array([[[limits.min, 2]], [[1, 2]]], dtype).transpose(1, 0, 2)
    c2step.dump(None, {"x": array}, str(tmp_path / "o"), predict_net=str(tmp_path / "n.pb"))
    (found,) = channels([Capture(str(tmp_path / "o"))])
    assert found.largest == [float(max(abs(int(v)) for v in row)) for row in array[0].tolist()]


# -- bench -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type, inputs, output, wanted",
    [
        ("Conv", [(1, 3, 8, 8), (16, 3, 3, 3), (16,)], (1, 16, 6, 6), 16 * 36 * (2 * 27 + 1)),
        ("FC", [(4, 100), (10, 100), (10,)], (4, 10), 4 * 10 * (2 * 100 + 1)),
        ("MatMul", [(5, 7), (7, 3)], (5, 3), 5 * 3 * 14),
        ("Relu", [(2, 3)], (2, 3), 6),
        ("Softmax", [(2, 3)], (2, 3), None),
    ],
)
def test_flop(type, inputs, output, wanted):
    assert flop(Operator(0, type, "", ("a",) * len(inputs), ("y",)), inputs, [output]) == wanted


def test_flop_of_a_convolution_is_what_caffe2_says():
    from caffe2.python import core, workspace

    workspace.ResetWorkspace()
    for name, shape in (("x", (1, 4, 9, 9)), ("w", (8, 4, 3, 3)), ("b", (8,))):
        workspace.FeedBlob(name, np.zeros(shape, np.float32))
    op = core.CreateOperator("Conv", ["x", "w", "b"], ["y"], kernel=3)
    theirs = workspace.C.get_operator_cost(op.SerializeToString(), list(op.input))[0]
    ours = flop(Operator(0, "Conv", "", ("x", "w", "b"), ("y",)), [(1, 4, 9, 9), (8, 4, 3, 3), (8,)], [(1, 8, 7, 7)])
    assert ours - 8 * 49 == theirs  # Caffe2 leaves the bias out


def test_bench_agrees_with_benchmark_net(tmp_path):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"])  # w is fed all the same
    for i in range(12):
        op = net.op.add(type="MatMul" if i % 2 else "Relu", output=["v%d" % i])
        op.input.extend(["v%d" % (i - 1) if i else "x"] + (["w"] if i % 2 else []))
    path = str(tmp_path / "n.pb")
    with open(path, "wb") as file:
        file.write(net.SerializeToString())
    given = {"x": np.ones((200, 200), np.float32), "w": np.full((200, 200), 1e-3, np.float32)}
    apart = []
    for _ in range(5):  # what else the machine does may spoil one of them
        with c2step.open(inputs=given, predict_net=path, keep=Keep(level="stats")) as session:
            found = bench(session, 2, 25)
        assert len(found.operators) == 12 and sum(t.share for t in found.operators) == pytest.approx(1)
        assert found.operators[1].flop == 2 * 200**3 and found.operators[1].share > found.operators[0].share
        apart.append(abs(found.total / found.caffe2 - 1))
        if apart[-1] < 0.5:
            return
    raise AssertionError("apart by %s" % apart)


@pytest.mark.parametrize("caffe2, said", [(1.4e-3, False), (1.6e-3, True), (0.6e-3, True)])
def test_figures_that_disagree_are_said(caffe2, said):
    relu = Operator(0, "Relu", "", ("x",), ("y",))
    lines = bench_lines(Bench([Timing(relu, 9e-4, 1e-3, 1e-4, 1.0, 8)], 20, 1.1e-3, caffe2))
    assert ("these disagree by 1.6x" in lines[-1] or "by 1.8x" in lines[-1]) == said


def test_bench_of_a_net_that_fails(tmp_path, capsys):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"])
    net.op.add(type="FC", input=["x", "x", "x"], output=["y"])
    (tmp_path / "n.pb").write_bytes(net.SerializeToString())
    np.save(str(tmp_path / "x.npy"), np.ones((2, 3), np.float32))
    words = ["bench", "--predict-net", str(tmp_path / "n.pb"), "--input", "x=%s" % (tmp_path / "x.npy")]
    assert main(words) == 4
    assert "bench needs a net that runs" in capsys.readouterr().err
    kinds = {"failed": OperatorError, "died": WorkerDied, "timeout": WorkerTimeout, "interrupted": KeyboardInterrupt}
    assert {reason: type(Stop(reason, 0, None).error("it ended")) for reason in kinds} == kinds


def test_values_of_a_capture_can_be_a_side(models, tmp_path):
    folder = os.path.join(models, "digits_native")
    given = dict(np.load(folder + "/input.npz"))
    c2step.dump(
        None, given, str(tmp_path / "o"), init_net=folder + "/init_net.pb", predict_net=folder + "/predict_net.pb"
    )
    same = open_capture(str(tmp_path / "o"))
    assert {row.snr for row in quant(same, same)} == {float("inf")}
