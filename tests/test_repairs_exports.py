"""What exporters write beside the plain operators: names left empty, training, private domains, fixed batches."""

import numpy as np
import onnx
import pytest
from onnx import helper

import oracle
from c2step import cli
from c2step.errors import ConversionError, ExitStatus
from c2step.importer import backend
from repair_support import check, findings_of, model_of, node, rand, run_caffe2, run_onnxruntime

ML = "ai.onnx.ml"
SHAPES = [(1, 2, 6, 6), (2, 2, 5, 7)]


def statistics(c):
    return {"s": rand(c), "b": rand(c, seed=1), "m": rand(c, seed=2), "v": rand(c, seed=3, low=0.5)}


@pytest.mark.parametrize("shape", SHAPES)
class TestEmptyNames:
    """At the end of a node an empty name is the same as none."""

    @pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
    def test_no_bias(self, shape, op):
        nodes = [node(op, ["x", "w", ""], ["y"], kernel_shape=[3, 3])]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "empty-name", {"w": rand(2, 2, 3, 3)})

    def test_no_split(self, shape):
        check([node("Split", ["x", ""], ["a", "b"], axis=1)], {"x": rand(*shape)}, ["a", "b"], 13, "empty-name")

    def test_no_indices(self, shape):
        nodes = [node("MaxPool", ["x"], ["y", ""], kernel_shape=[2, 2])]
        check(nodes, {"x": rand(*shape)}, ["y"], 9, "empty-name")

    def test_no_statistics(self, shape):
        weights = statistics(shape[1])
        nodes = [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "", "", "", ""])]
        x, wide = rand(*shape), (1, -1, 1, 1)
        s, b, m, v = (weights[k].reshape(wide) for k in "sbmv")
        expected = [(x - m) / np.sqrt(v + np.float32(1e-5)) * s + b]  # onnxruntime dies of the empty names
        check(nodes, {"x": x}, ["y"], 9, "empty-name", weights, expected)

    def test_no_peepholes(self, shape):
        weights = {"w": rand(1, 12, 6), "r": rand(1, 12, 3), "b": rand(1, 24), "h": rand(1, 2, 3), "c": rand(1, 2, 3)}
        nodes = [node("LSTM", ["x", "w", "r", "b", "", "h", "c", ""], ["y", "yh", "yc"], hidden_size=3)]
        check(nodes, {"x": rand(shape[2], 2, 6)}, ["y", "yh", "yc"], 11, "empty-name", weights)

    def test_what_is_left_out_in_the_middle_stays(self, shape):
        model = model_of([node("Clip", ["x", "", "h"], ["y"])], {"x": rand(*shape)}, ["y"], 12, {"h": rand()})
        assert "empty-name" not in {f.code for f in findings_of(model, {"x": rand(*shape)})}


@pytest.mark.parametrize("shape", SHAPES + [(4, 3)])
@pytest.mark.parametrize("momentum", [0.9, 0.5])
def test_training_before_opset_14_is_told_by_its_outputs(shape, momentum):
    outputs = ["y", "m2", "v2", "sm", "sv"]
    nodes = [node("BatchNormalization", ["x", "s", "b", "m", "v"], outputs, momentum=momentum, epsilon=1e-3)]
    check(nodes, {"x": rand(*shape)}, outputs, 12, "batchnorm-training", statistics(shape[1]))


def test_a_constant_of_no_dimensions():
    nodes = [node("ConstantOfShape", ["e"], ["c"]), node("Add", ["x", "c"], ["y"])]
    check(nodes, {"x": rand(2, 3)}, ["y"], 11, "constant-scalar", {"e": np.zeros(0, np.int64)})


@pytest.mark.parametrize(
    "activations, alpha, beta",
    [
        (["HardSigmoid", "Tanh", "Tanh"], [0.25], [0.4]),
        (["Sigmoid", "LeakyRelu", "Elu"], [0.1, 0.7], []),
        (["HardSigmoid", "Affine", "ScaledTanh"], [0.3, 0.8, 0.9], [0.4, 0.1, 0.6]),
        (["HardSigmoid", "Tanh", "ThresholdedRelu"], [0.25, 0.2], [0.4]),
    ],
)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_activations_take_their_own_alpha_and_beta(activations, alpha, beta, direction):
    count = 2 if direction == "bidirectional" else 1
    weights = {"w": rand(count, 12, 4), "r": rand(count, 12, 3), "b": rand(count, 24)}
    attributes = {"activations": activations * count, "activation_alpha": alpha * count, "direction": direction}
    if beta:
        attributes["activation_beta"] = beta * count
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["y", "yh", "yc"], hidden_size=3, **attributes)]
    check(nodes, {"x": rand(5, 2, 4)}, ["y", "yh", "yc"], 11, "rnn-attribute", weights)


@pytest.mark.parametrize("batch", [1, 4])
class TestClassical:
    def test_a_pipeline_of_scikit_learn(self, batch):
        x = rand(batch, 3)
        x[0, 1] = np.nan
        nodes = [
            node("Imputer", ["x"], ["i"], domain=ML, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=np.nan),
            node("Scaler", ["i"], ["s"], domain=ML, offset=[0.1, 0.2, 0.3], scale=[1.0, 2.0, 0.5]),
            node("Binarizer", ["s"], ["b"], domain=ML, threshold=0.2),
            node("FeatureVectorizer", ["s", "b"], ["f"], domain=ML, inputdimensions=[3, 3]),
            node("ArrayFeatureExtractor", ["f", "columns"], ["y"], domain=ML),
        ]
        check(nodes, {"x": x}, ["s", "b", "y"], 9, "no-operator", {"columns": np.array([5, 0, 2])})

    @pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
    @pytest.mark.parametrize("labels", [[0, 1], [5, -7, 9]])
    def test_a_linear_classifier(self, batch, transform, labels):
        chosen = {
            "classlabels_ints": labels,
            "post_transform": transform,
            "intercepts": list(rand(len(labels), seed=2)),
        }
        numbers = rand(len(labels) * 3, seed=3).tolist()
        nodes = [node("LinearClassifier", ["x"], ["label", "p"], domain=ML, coefficients=numbers, **chosen)]
        check(nodes, {"x": rand(batch, 3)}, ["label", "p"], 9, "no-operator")

    @pytest.mark.parametrize("targets", [1, 2])
    def test_a_linear_regressor(self, batch, targets):
        numbers = {"coefficients": rand(3 * targets).tolist(), "intercepts": rand(targets).tolist(), "targets": targets}
        nodes = [node("LinearRegressor", ["x"], ["y"], domain=ML, **numbers)]
        check(nodes, {"x": rand(batch, 3)}, ["y"], 9, "no-operator")

    @pytest.mark.parametrize("norm", ["L1", "L2", "MAX"])
    def test_a_normalizer_leaves_zeros(self, batch, norm):
        x = np.abs(rand(batch + 1, 3))
        x[1] = 0
        check([node("Normalizer", ["x"], ["y"], domain=ML, norm=norm)], {"x": x}, ["y"], 9, "no-operator")

    def test_what_arithmetic_does_not_compute_is_refused_in_words(self, batch):
        chosen = {"coefficients": [1.0, -1.0], "support_vectors": rand(6).tolist(), "n_supports": 2, "rho": [0.1]}
        nodes = [node("SVMRegressor", ["x"], ["y"], domain=ML, kernel_type="RBF", **chosen)]
        model = model_of(nodes, {"x": rand(batch, 3)}, ["y"], 9)
        with pytest.raises(ConversionError) as caught:
            backend.import_model(model, True)
        assert "not repaired: no Caffe2 operators compute it; cut the model" in caught.value.message
        assert "--partial" in caught.value.hint and "--import repaired" not in caught.value.hint


def test_operators_of_caffe2_itself_are_taken_as_they_are():
    nodes = [
        node("ResizeNearest", ["x"], ["r"], domain="_caffe2", width_scale=2.0, height_scale=2.0),
        node("ATen", ["r"], ["y"], domain="org.pytorch.aten", operator="neg"),
    ]
    x = rand(1, 2, 3, 3)
    model = model_of(nodes, {"x": x}, ["y"], 11)
    assert {(f.code, f.effect) for f in findings_of(model, {"x": x})} == {("caffe2-operator", "note")}
    for repaired in (False, True):
        made = backend.import_model(model, repaired)
        assert not [note for note in made.notes if "domain" in note or "operator set" in note]
        np.testing.assert_array_equal(run_caffe2(made, {"x": x})[0], -x.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(
    "target, shape, wrong",
    [
        ((1, 8), (2, 8, 1, 1), True),
        ((1, -1, 3), (2, 8, 1, 1), True),
        ((1, 8), (1, 8, 1, 1), False),
        ((0, -1), (2, 8, 1, 1), False),
        ((2, -1), (2, 0), False),
        ((1, -1), (2, 8, 1, 1), False),
    ],
)
def test_a_shape_fixed_for_another_batch_is_said(target, shape, wrong):
    model = model_of([node("Reshape", ["x", "t"], ["y"])], {"x": rand(*shape)}, ["y"], 9, {"t": np.array(target)})
    found = findings_of(model, {"x": rand(*shape)})
    assert [(f.code, f.effect) for f in found] == ([("reshape-size", "fail")] if wrong else [])
    assert all("feed the batch and image size that it was exported with" in f.message for f in found)


def test_lint_takes_inputs_for_what_the_model_leaves_open(tmp_path, capsys):
    x = rand(5, 2, 4)
    weights = {"w": rand(1, 12, 4), "r": rand(1, 12, 3)}
    nodes = [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3, clip=0.5)]
    model = model_of(nodes, {"x": x}, ["y"], 11, weights)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "steps"
    onnx.save(model, str(tmp_path / "m.onnx"))
    np.save(str(tmp_path / "x.npy"), x)
    command = ["lint", str(tmp_path / "m.onnx")]
    assert cli.main(command) == ExitStatus.DIFFERS and "give the input, or --dim" in capsys.readouterr().out
    assert cli.main([*command, "--input", str(tmp_path / "x.npy")]) == ExitStatus.DIFFERS
    assert "repair LSTM_0: unrolled steps of 1 direction" in capsys.readouterr().out


def test_convert_takes_inputs_for_what_the_model_leaves_open_where_no_name_says_it(tmp_path, capsys):
    x, nets = rand(1, 2, 3, 4), str(tmp_path / "nets")
    weights = {"s": np.array([1, 1, 2, 2], np.float32)}
    model = model_of([node("Resize", ["x", "", "s"], ["y"], mode="linear")], {"x": x}, ["y"], 13, weights)
    model.graph.input[0].type.tensor_type.shape.dim[2].Clear()
    onnx.save(model, str(tmp_path / "m.onnx"))
    np.savez(str(tmp_path / "in.npz"), x=x)
    command = ["convert", str(tmp_path / "m.onnx"), "--import", "repaired", "-o", nets]
    assert cli.main(command) == ExitStatus.MODEL
    assert "dimension 2 of the image is not known: give the input, or --dim\n" in capsys.readouterr().err
    for more in (["--dim", "h=3"], ["--random-inputs", "1"]):
        assert cli.main(command + more) == ExitStatus.USAGE
    assert "--input x=FILE.npy" in capsys.readouterr().err
    assert cli.main([*command, "--input", str(tmp_path / "in.npz")]) == ExitStatus.OK
    assert "input x is taken to be [1, 2, 3, 4]" in capsys.readouterr().err
    found = oracle.run_net(nets + "/init_net.pb", nets + "/predict_net.pb", str(tmp_path / "in.npz"), str(tmp_path))
    np.testing.assert_allclose(found["y"], run_onnxruntime(model, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_a_mode_that_nobody_knows_is_not_a_matter_of_sizes(tmp_path, capsys):
    weights = {"s": np.array([1, 1, 2, 2], np.float32)}
    resize = node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="odd")
    model = model_of([resize], {"x": rand(1, 2, 3, 4)}, ["y"], 13, weights)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    onnx.save(model, str(tmp_path / "m.onnx"))
    assert cli.main(["lint", str(tmp_path / "m.onnx")]) == ExitStatus.DIFFERS
    assert "coordinate_transformation_mode odd is not known\n" in capsys.readouterr().out


def test_a_dropout_that_trains_says_what_to_do():
    nodes, weights = [node("Dropout", ["x", "r", "t"], ["y"], seed=3)], {"r": rand(), "t": np.array(True)}
    model = model_of(nodes, {"x": rand(2, 3)}, ["y"], 13, weights)
    with pytest.raises(ConversionError, match="not repaired: export the model for inference"):
        backend.import_model(model, True)


@pytest.mark.parametrize("opset", [7, 10, 13])
def test_the_mask_of_dropout_is_what_onnxruntime_writes(opset):
    check([node("Dropout", ["x"], ["y", "m"])], {"x": rand(2, 3)}, ["y", "m"], opset, "dropout-mask")


@pytest.mark.parametrize(
    "op, inputs, attributes, mean, spread",
    [
        ("RandomNormal", [], {"shape": [200, 100], "seed": 1.0, "mean": 2.0, "scale": 3.0}, 2, 3),
        ("RandomNormalLike", ["x"], {"seed": 1.0}, 0, 1),
        ("RandomNormalLike", ["x"], {"dtype": onnx.TensorProto.DOUBLE, "mean": 1.0}, 1, 1),
        ("RandomUniformLike", ["x"], {"low": 2.0, "high": 4.0}, 3, 2 / 12**0.5),
        ("Bernoulli", ["x"], {}, 0.25, (0.25 * 0.75) ** 0.5),
        ("Bernoulli", ["x"], {"dtype": onnx.TensorProto.BOOL, "seed": 2.0}, 0.25, (0.25 * 0.75) ** 0.5),
    ],
)
def test_random_numbers_are_drawn_from_the_same_distribution(op, inputs, attributes, mean, spread):
    x = np.full((200, 100), 0.25, np.float32)
    model = model_of([node(op, inputs, ["y"], **attributes)], {"x": x}, ["y"], 15)
    found = findings_of(model, {"x": x})
    assert [f.effect for f in found] == ["note", "refuse"] and found[1].repair
    drawn = run_caffe2(backend.import_model(model, True), {"x": x})[0]
    wanted = helper.tensor_dtype_to_np_dtype(attributes.get("dtype", onnx.TensorProto.FLOAT))
    assert (drawn.dtype, drawn.shape) == (wanted, x.shape)
    assert abs(drawn.mean() - mean) < 8 * spread / x.size**0.5 and abs(drawn.std() - spread) < 0.06 * spread


def test_a_multinomial_of_no_given_dtype():
    x = rand(3, 4)
    model = model_of([node("Multinomial", ["x"], ["y"], sample_size=5)], {"x": x}, ["y"], 13)
    drawn = run_caffe2(backend.import_model(model, True), {"x": x})[0]
    assert (drawn.dtype, drawn.shape) == (np.int32, (3, 5)) and drawn.min() >= 0 and drawn.max() < 4


def test_slopes_that_onnx_does_not_broadcast_are_taken_per_channel():
    x, slopes = rand(2, 4, 3, 5), rand(4, seed=3)
    model = model_of([node("PRelu", ["x", "s"], ["y"])], {"x": x}, ["y"], 9, {"s": slopes})
    assert [(f.code, f.effect) for f in findings_of(model, {"x": x})] == [("prelu-slope", "note")]
    expected = np.where(x > 0, x, x * slopes[:, None, None])
    np.testing.assert_allclose(run_caffe2(backend.import_model(model, True), {"x": x})[0], expected, rtol=1e-6)


def test_what_the_optimizer_of_onnxruntime_wrote_is_told():
    model = model_of([node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")], {"x": rand(2, 3)}, ["y"], 11)
    found = findings_of(model, {"x": rand(2, 3)})
    assert any("onnxruntime's optimizer writes such: take the model from before it" in f.message for f in found)
