"""Repairs of shapes, axes, slices, gathers and scatters, against onnxruntime."""

import numpy as np
import pytest

from c2step.importer import backend
from repair_support import check, model_of, node, rand, run_caffe2, run_onnxruntime

SHAPES = [(2, 3, 4), (1, 5, 2)]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("shape", SHAPES)
class TestAxes:
    def test_squeeze_with_axes_as_input(self, shape):
        x = rand(*shape)[:, None]
        check([node("Squeeze", ["x", "a"], ["y"])], {"x": x}, ["y"], 13, "axes-input", {"a": ints(1)})

    def test_squeeze_of_a_negative_axis(self, shape):
        check([node("Squeeze", ["x"], ["y"], axes=[-1])], {"x": rand(*shape)[..., None]}, ["y"], 11, "negative-axis")

    def test_squeeze_of_every_one(self, shape):
        check([node("Squeeze", ["x"], ["y"])], {"x": rand(1, *shape, 1)}, ["y"], 9, "squeeze-all")

    @pytest.mark.parametrize("axes", [(0,), (-1, 1), (3, 0)])
    def test_unsqueeze_with_axes_as_input(self, shape, axes):
        nodes = [node("Unsqueeze", ["x", "a"], ["y"])]
        check(nodes, {"x": rand(*shape)}, ["y"], 13, "axes-input", {"a": ints(*axes)})

    def test_flatten_at_a_negative_axis(self, shape):
        check([node("Flatten", ["x"], ["y"], axis=-1)], {"x": rand(*shape)}, ["y"], 11, "negative-axis")

    def test_reshape_by_a_computed_shape_is_folded(self, shape):
        nodes = [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "minus"], ["last"]),
            node("Concat", ["one", "last"], ["t"], axis=0),
            node("Resize", ["four", "", "", "t4"], ["z"], mode="nearest"),
            node("Concat", ["head", "last", "last"], ["t4"], axis=0),
            node("Reshape", ["x", "t"], ["y"]),
        ]
        nodes[3], nodes[4] = nodes[4], nodes[3]
        weights = {"minus": ints(-1), "one": ints(-1), "head": ints(1, 1)}
        check(nodes, {"x": rand(*shape), "four": rand(1, 1, 2, 2)}, ["y", "z"], 13, "no-operator", weights)

    def test_shape_with_start_and_end(self, shape):
        check([node("Shape", ["x"], ["y"], start=1, end=-1)], {"x": rand(*shape)}, ["y"], 15, "shape-range")

    def test_transpose_of_narrow_integers(self, shape):
        x = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
        check([node("Transpose", ["x"], ["y"], perm=[2, 0, 1])], {"x": x}, ["y"], 13, "dtype")

    def test_split_with_sizes_as_input(self, shape):
        nodes = [node("Split", ["x", "s"], ["a", "b"], axis=2)]
        check(nodes, {"x": rand(*shape)}, ["a", "b"], 13, "split-input", {"s": ints(1, shape[2] - 1)})

    def test_split_by_count(self, shape):
        nodes = [node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)]
        check(nodes, {"x": rand(*shape)}, ["a", "b"], 18, "split-count")


@pytest.mark.parametrize("shape", [(4, 5), (7, 3)])
@pytest.mark.parametrize(
    "start, end, axes, steps",
    [
        ((1,), (3,), (1,), (1,)),
        ((0, 1), (-1, 1000), (0, 1), (1, 1)),
        ((-1,), (-1000,), (0,), (-1,)),
        ((0,), (1 << 62,), (-1,), (2,)),
    ],
)
def test_slice_with_inputs(shape, start, end, axes, steps):
    weights = {"s": ints(*start), "e": ints(*end), "a": ints(*axes), "t": ints(*steps)}
    check([node("Slice", ["x", "s", "e", "a", "t"], ["y"])], {"x": rand(*shape)}, ["y"], 11, "slice-inputs", weights)


@pytest.mark.parametrize("shape", [(1, 2, 5, 6), (2, 1, 4, 4)])
class TestPad:
    @pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
    def test_image(self, shape, mode):
        pads = {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)}
        check([node("Pad", ["x", "p"], ["y"], mode=mode)], {"x": rand(*shape)}, ["y"], 11, "pad-inputs", pads)

    @pytest.mark.parametrize("mode", ["constant", "edge"])
    def test_batch_and_channels_with_a_value(self, shape, mode):
        weights = {"p": ints(1, 0, 0, 2, 0, 1, 0, 0), "v": np.array(1.5, np.float32)}
        check([node("Pad", ["x", "p", "v"], ["y"], mode=mode)], {"x": rand(*shape)}, ["y"], 13, "pad-inputs", weights)

    def test_negative(self, shape):
        nodes = [node("Pad", ["x"], ["y"], pads=[0, 0, -1, 0, 0, 0, 1, -2])]
        check(nodes, {"x": rand(*shape)}, ["y"], 9, "pad-form")


@pytest.mark.parametrize("shape", [(4, 3, 2), (5, 2, 3)])
class TestGather:
    def test_last_axis(self, shape):
        check(
            [node("Gather", ["x", "i"], ["y"], axis=2)],
            {"x": rand(*shape)},
            ["y"],
            11,
            "gather-axis",
            {"i": ints(1, 0)},
        )

    def test_negative_along_axis_1(self, shape):
        nodes = [node("Gather", ["x", "i"], ["y"], axis=1)]
        check(nodes, {"x": rand(*shape)}, ["y"], 11, "gather-negative", {"i": ints(-1, 0, -2)})

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_elements(self, shape, axis):
        i = np.random.RandomState(1).randint(-shape[axis], shape[axis], shape)
        check(
            [node("GatherElements", ["x", "i"], ["y"], axis=axis)],
            {"x": rand(*shape), "i": i},
            ["y"],
            11,
            "no-operator",
        )

    def test_nd(self, shape):
        i = np.array([[0, 1], [3, -1]])
        check([node("GatherND", ["x", "i"], ["y"])], {"x": rand(*shape), "i": i}, ["y"], 12, "no-operator")

    @pytest.mark.parametrize("op, opset", [("Scatter", 9), ("ScatterElements", 11)])
    @pytest.mark.parametrize("axis", [0, 1])
    def test_scatter(self, shape, op, opset, axis):
        u = rand(*[2 if k == axis else d for k, d in enumerate(shape)], seed=3)
        i = np.argsort(rand(*shape), axis=axis).take([0, 1], axis)
        i, u = i[..., :1], u[..., :1]
        code = "scatter-axis" if op == "Scatter" else "no-operator"
        check([node(op, ["x", "i", "u"], ["y"], axis=axis)], {"x": rand(*shape), "i": i, "u": u}, ["y"], opset, code)

    def test_scatter_without_axis(self, shape):
        i = np.zeros((1,) + shape[1:], np.int64)
        inputs = {"x": rand(*shape), "i": i, "u": rand(*i.shape, seed=3)}
        check([node("Scatter", ["x", "i", "u"], ["y"])], inputs, ["y"], 9, "scatter-axis")

    @pytest.mark.parametrize("reduction", ["none", "add", "mul"])
    def test_scatter_nd(self, shape, reduction):
        inputs = {"x": rand(*shape), "u": rand(3, shape[2], seed=3)}
        places = np.array([[0, 1], [3, -1], [0, 0] if reduction == "none" else [0, 1]])
        nodes = [node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)]
        check(nodes, inputs, ["y"], 16, "no-operator", {"i": places})


@pytest.mark.parametrize("size", [4, 6])
class TestArranging:
    def test_one_hot(self, size):
        weights = {"d": np.array(size), "v": np.array([0.5, 2.0], np.float32)}
        nodes = [node("OneHot", ["x", "d", "v"], ["y"], axis=1)]
        check(nodes, {"x": np.array([[0, 3], [-1, 2]])}, ["y"], 11, "onehot-form", weights)

    @pytest.mark.parametrize("upper", [0, 1])
    def test_triangle(self, size, upper):
        check(
            [node("Trilu", ["x", "k"], ["y"], upper=upper)],
            {"x": rand(2, size, 5)},
            ["y"],
            14,
            "no-operator",
            {"k": np.array(1)},
        )

    @pytest.mark.parametrize("reverse, exclusive", [(0, 0), (1, 0), (0, 1)])
    def test_running_sum(self, size, reverse, exclusive):
        nodes = [node("CumSum", ["x", "a"], ["y"], reverse=reverse, exclusive=exclusive)]
        check(nodes, {"x": rand(size, 3)}, ["y"], 11, "no-operator", {"a": np.array(0, np.int32)})

    @pytest.mark.parametrize("mode", ["DCR", "CRD"])
    def test_depth_to_space(self, size, mode):
        nodes = [node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)]
        check(nodes, {"x": rand(1, 8, size, 3)}, ["y"], 11, "no-operator")

    def test_space_to_depth(self, size):
        check([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": rand(2, 3, size, 4)}, ["y"], 11, "no-operator")

    def test_smallest(self, size):
        nodes = [node("TopK", ["x", "k"], ["v", "i"], largest=0, axis=1)]
        check(nodes, {"x": rand(3, size)}, ["v", "i"], 11, "topk-smallest", {"k": ints(2)})

    def test_compress(self, size):
        keep = np.arange(size) % 2 == 0
        check([node("Compress", ["x", "c"], ["y"], axis=1)], {"x": rand(2, size), "c": keep}, ["y"], 11, "no-operator")

    def test_reverse_sequence(self, size):
        nodes = [node("ReverseSequence", ["x", "l"], ["y"], time_axis=0, batch_axis=1)]
        check(nodes, {"x": rand(size, 2, 3), "l": ints(2, size)}, ["y"], 10, "no-operator")


@pytest.mark.parametrize("limit", [0.0, 5.0])
def test_elements_and_rows_that_the_data_choose(limit):
    inputs = {"x": rand(3, 4), "s": rand(3, seed=4)}
    nodes = [
        node("Greater", ["x", "l"], ["mask"]),
        node("NonZero", ["mask"], ["found"]),
        node("Transpose", ["found"], ["places"], perm=[1, 0]),
        node("GatherND", ["x", "places"], ["y"]),
        node("Greater", ["s", "l"], ["chosen"]),
        node("NonZero", ["chosen"], ["numbers"]),
        node("Transpose", ["numbers"], ["tuples"], perm=[1, 0]),
        node("GatherND", ["x", "tuples"], ["rows"]),
    ]
    model = model_of(nodes, inputs, ["y", "rows"], 13, {"l": np.array(limit, np.float32)})
    made = backend.import_model(model, True, input_shapes={name: value.shape for name, value in inputs.items()})
    for got, wanted in zip(run_caffe2(made, inputs), run_onnxruntime(model, inputs)):
        np.testing.assert_array_equal(got, wanted)
