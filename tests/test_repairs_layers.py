"""Repairs of pooling, convolution, resizing, normalization, products and losses, against onnxruntime."""

import numpy as np
import pytest

from c2step.importer import backend
from repair_support import check, findings_of, model_of, node, rand, run_caffe2, run_onnxruntime

IMAGES = [(1, 2, 7, 8), (2, 1, 6, 5)]


@pytest.mark.parametrize("shape", IMAGES)
class TestPooling:
    @pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
    @pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 1]])
    def test_ceil_mode(self, shape, op, pads):
        nodes = [node(op, ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=pads, ceil_mode=1)]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "pool-ceil-mode")

    @pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
    @pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
    def test_auto_pad(self, shape, op, mode):
        nodes = [node(op, ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 2], auto_pad=mode)]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "auto-pad")

    def test_dilated_maximum(self, shape):
        nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1])]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "pool-dilations")

    @pytest.mark.parametrize("order", [0, 1])
    def test_indices_of_the_maximum(self, shape, order):
        nodes = [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2], storage_order=order)]
        check(nodes, {"x": rand(*shape)}, ["y", "i"], 11, "maxpool-indices")

    @pytest.mark.parametrize("ceil", [0, 1])
    def test_padding_that_counts(self, shape, ceil):
        nodes = [
            node(
                "AveragePool",
                ["x"],
                ["y"],
                kernel_shape=[3],
                strides=[2],
                pads=[1, 1],
                ceil_mode=ceil,
                count_include_pad=1,
            )
        ]
        hangs = ceil and (shape[2] - 1) % 2
        check(nodes, {"x": rand(*shape[:2], shape[2])}, ["y"], 11, "pool-ceil-mode" if hangs else "pool-include-pad")

    @pytest.mark.parametrize("form", [{"ceil_mode": 1, "pads": [1, 0, 0, 1]}, {"auto_pad": "SAME_UPPER"}])
    def test_padding_that_counts_is_written_as_pixels(self, shape, form):
        nodes = [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[3, 2], count_include_pad=1, **form)]
        x = rand(*shape[:2], 8, 9)
        check(nodes, {"x": x}, ["y"], 11, "pool-ceil-mode" if "pads" in form else "auto-pad")
        made = backend.import_model(model_of(nodes, {"x": x}, ["y"], 11), True)
        assert "count_include_pad" not in {arg.name for op in made.predict.op for arg in op.arg}

    def test_norm_pooling(self, shape):
        nodes = [node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 1], p=2)]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "lppool-p")


@pytest.mark.parametrize("shape", IMAGES)
class TestConvolution:
    @pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
    def test_auto_pad(self, shape, mode):
        nodes = [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 2], strides=[2, 1], auto_pad=mode)]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "auto-pad", {"w": rand(3, shape[1], 3, 2, seed=1)})

    def test_without_kernel_shape(self, shape):
        nodes = [node("Conv", ["x", "w"], ["y"], pads=[0, 1, 1, 0])]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "conv-kernel", {"w": rand(3, shape[1], 2, 3, seed=1)})

    @pytest.mark.parametrize(
        "attrs, code",
        [
            ({"dilations": [2, 1], "kernel_shape": [3, 3]}, "convtranspose-dilations"),
            ({"output_shape": [12, 10], "strides": [2, 2], "kernel_shape": [3, 3]}, "convtranspose-output-shape"),
            ({"auto_pad": "SAME_UPPER", "strides": [2, 2], "kernel_shape": [3, 3]}, "auto-pad"),
            ({"strides": [2, 1], "pads": [1, 0, 0, 1]}, "conv-kernel"),
        ],
    )
    def test_transposed(self, shape, attrs, code):
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], **attrs)]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, code, {"w": rand(shape[1], 2, 3, 3, seed=1)})

    @pytest.mark.parametrize("rank", [1, 3])
    @pytest.mark.parametrize("group", [1, 2])
    def test_transposed_in_other_ranks(self, shape, rank, group):
        x = rand(1, 2, *((4, 3, 5)[:rank]), seed=shape[0])
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=[2] * rank, strides=[2] * rank, group=group)]
        check(nodes, {"x": x}, ["y"], 11, "convtranspose-rank", {"w": rand(2, 3, *([2] * rank), seed=1)})


@pytest.mark.parametrize("size", [(4, 5), (3, 6)])
class TestResize:
    @pytest.mark.parametrize("transform", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    @pytest.mark.parametrize("mode", ["linear", "cubic"])
    def test_to_a_size(self, size, transform, mode):
        nodes = [node("Resize", ["x", "", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=transform)]
        check(nodes, {"x": rand(1, 2, *size)}, ["y"], 13, "no-operator", {"s": np.array([1, 2, 7, 9])}, atol=1e-4)

    @pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    @pytest.mark.parametrize("transform", ["half_pixel", "asymmetric", "align_corners"])
    def test_nearest(self, size, rounding, transform):
        attrs = {"mode": "nearest", "nearest_mode": rounding, "coordinate_transformation_mode": transform}
        nodes = [node("Resize", ["x", "", "", "s"], ["y"], **attrs)]
        check(nodes, {"x": rand(1, 2, *size)}, ["y"], 13, "no-operator", {"s": np.array([1, 2, 7, 8])})

    def test_whole_factors_are_one_operator(self, size):
        nodes = [
            node(
                "Resize",
                ["x", "", "s"],
                ["y"],
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            )
        ]
        check(nodes, {"x": rand(1, 2, *size)}, ["y"], 13, "no-operator", {"s": np.array([1, 1, 2, 3], np.float32)})

    def test_upsample_linear(self, size):
        nodes = [node("Upsample", ["x", "s"], ["y"], mode="linear")]
        check(nodes, {"x": rand(1, 2, *size)}, ["y"], 9, "upsample-linear", {"s": np.array([1, 1, 2, 2], np.float32)})


@pytest.mark.parametrize("shape", IMAGES)
class TestNormalization:
    def test_batch_normalization_14(self, shape):
        c = shape[1]
        weights = {"s": rand(c), "b": rand(c, seed=1), "m": rand(c, seed=2), "v": rand(c, seed=3, low=0.5)}
        nodes = [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], training_mode=0)]
        check(nodes, {"x": rand(*shape)}, ["y"], 15, "batchnorm-14", weights)

    @pytest.mark.parametrize("axis", [-1, 2])
    def test_layer_normalization(self, shape, axis):
        weights = {"s": rand(*shape[axis:]), "b": rand(*shape[axis:], seed=1)}
        check(
            [node("LayerNormalization", ["x", "s", "b"], ["y"], axis=axis)],
            {"x": rand(*shape)},
            ["y"],
            17,
            "no-operator",
            weights,
        )

    def test_mean_and_variance(self, shape):
        check([node("MeanVarianceNormalization", ["x"], ["y"])], {"x": rand(*shape)}, ["y"], 13, "no-operator")


@pytest.mark.parametrize("n", [3, 5])
class TestProducts:
    def test_gemm_without_c(self, n):
        nodes = [node("Gemm", ["a", "b"], ["y"], alpha=0.5, transB=1)]
        check(nodes, {"a": rand(2, n), "b": rand(4, n, seed=1)}, ["y"], 11, "gemm-no-c")

    def test_two_vectors(self, n):
        check([node("MatMul", ["a", "b"], ["y"])], {"a": rand(n), "b": rand(n, seed=1)}, ["y"], 9, "matmul-vectors")

    @pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bjk->ik", "bij,bjk->kb"])
    def test_einsum(self, n, equation):
        inputs = {"a": rand(2, 3, n), "b": rand(2, n, 4, seed=1)}
        check([node("Einsum", ["a", "b"], ["y"], equation=equation)], inputs, ["y"], 12, "no-operator")

    def test_einsum_of_an_einsum(self, n):
        nodes = [
            node("Einsum", ["a", "b"], ["q"], equation="bij,bjk->bik"),
            node("Einsum", ["q", "a"], ["y"], equation="bik,bij->bkj"),
        ]
        inputs = {"a": rand(2, 3, n), "b": rand(2, n, 4, seed=1)}
        check(nodes, inputs, ["y"], 12, "no-operator")
        assert all(f.repair for f in findings_of(model_of(nodes, inputs, ["y"], 12), inputs))

    def test_quantize_and_back(self, n):
        weights = {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
        nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
        check(nodes, {"x": rand(n, 4)}, ["q", "y"], 13, "no-operator", weights)


@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
class TestLosses:
    def test_cross_entropy(self, shape, reduction):
        labels = np.random.RandomState(2).randint(0, shape[1], shape[:1] + shape[2:])
        nodes = [node("SoftmaxCrossEntropyLoss", ["x", "t", "w"], ["y"], reduction=reduction, ignore_index=1)]
        check(nodes, {"x": rand(*shape), "t": labels}, ["y"], 13, "no-operator", {"w": rand(shape[1], low=0.5)})

    def test_negative_log_likelihood(self, shape, reduction):
        labels = np.random.RandomState(2).randint(0, shape[1], shape[:1] + shape[2:])
        nodes = [node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"], reduction=reduction)]
        check(nodes, {"x": rand(*shape), "t": labels}, ["y"], 13, "no-operator")


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample(mode, padding, align):
    nodes = [node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=align)]
    check(nodes, {"x": rand(2, 3, 4, 5), "g": rand(2, 3, 2, 2, low=-1.3, high=1.3)}, ["y"], 16, "no-operator")


DYNAMIC = [
    ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], {}),
    ([node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_UPPER")], {"w": rand(2, 2, 3, 3)}),
    ([node("Resize", ["x", "", "s"], ["y"], mode="linear")], {"s": np.array([1, 1, 2, 1.5], np.float32)}),
    ([node("Softmax", ["x"], ["y"], axis=1)], {}),
    ([node("HardSwish", ["x"], ["y"])], {}),
    ([node("Slice", ["x", "a", "b", "c"], ["y"])], {"a": np.array([1]), "b": np.array([-1]), "c": np.array([2])}),
    ([node("ReduceL2", ["x", "a"], ["y"])], {"a": np.array([1, -1])}),
]


@pytest.mark.parametrize("nodes, weights", DYNAMIC, ids=[n[0].op_type for n, _ in DYNAMIC])
def test_a_batch_that_is_not_known_stays_free(nodes, weights):
    """Repaired once for any batch, the net gives what onnxruntime gives for two of them."""
    model = model_of(
        nodes, {"x": rand(1, 2, 7, 5)}, ["y"], 18 if nodes[0].op_type.startswith("Reduce") else 14, weights
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    made = backend.import_model(model, True)
    assert made.applied
    for batch in (1, 3):
        x = rand(batch, 2, 7, 5)
        [wanted], [got] = run_onnxruntime(model, {"x": x}), run_caffe2(made, {"x": x})
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
