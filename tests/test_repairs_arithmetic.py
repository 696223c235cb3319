"""Repairs of arithmetic, activations, reductions and dtypes, against onnxruntime."""

import numpy as np
import pytest

from repair_support import check, node, rand

SHAPES = [(3, 4), (2, 3, 5)]


def scalar(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


@pytest.mark.parametrize("shape", SHAPES)
class TestElementwise:
    @pytest.mark.parametrize("exponent", [2.0, 0.5, 3.0, -1.0])
    def test_power_by_a_number(self, shape, exponent):
        x = rand(*shape, low=0.5)
        check([node("Pow", ["x", "e"], ["y"])], {"x": x}, ["y"], 12, "pow-broadcast", {"e": scalar(exponent)})

    def test_power_by_a_row(self, shape):
        inputs = {"x": rand(*shape, low=0.5), "e": rand(shape[-1], seed=1)}
        check([node("Pow", ["x", "e"], ["y"])], inputs, ["y"], 12, "pow-broadcast")

    @pytest.mark.parametrize("op", ["Max", "Min"])
    def test_extreme_of_other_shapes(self, shape, op):
        inputs = {"x": rand(*shape), "r": rand(shape[-1], seed=1), "s": rand(1, seed=2)}
        check([node(op, ["x", "r", "s"], ["y"])], inputs, ["y"], 12, "extreme-broadcast")

    @pytest.mark.parametrize("op", ["Max", "Min"])
    def test_extreme_of_integers(self, shape, op):
        x = np.arange(np.prod(shape)).reshape(shape)
        check([node(op, ["x", "r"], ["y"])], {"x": x, "r": x[::-1].copy()}, ["y"], 12, "dtype")

    @pytest.mark.parametrize("op", ["Sum", "Mean"])
    def test_sum_of_other_shapes(self, shape, op):
        check(
            [node(op, ["x", "r"], ["y"])], {"x": rand(*shape), "r": rand(shape[-1], seed=1)}, ["y"], 13, "sum-broadcast"
        )

    @pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
    def test_where_of_other_shapes(self, shape, dtype):
        inputs = {"c": rand(shape[-1]) > 0, "x": (rand(*shape) * 9).astype(dtype), "z": scalar(7, dtype)}
        check([node("Where", ["c", "x", "z"], ["y"])], inputs, ["y"], 9, "aten-where")

    @pytest.mark.parametrize("limits", [("a", "b"), ("a",), ("", "b")])
    def test_clip_with_limits_as_inputs(self, shape, limits):
        weights = {"a": scalar(-0.5), "b": scalar(0.75)}
        check([node("Clip", ["x", *limits], ["y"])], {"x": rand(*shape)}, ["y"], 11, "clip-inputs", weights)

    def test_clip_with_computed_limits(self, shape):
        check([node("Clip", ["x", "a"], ["y"])], {"x": rand(*shape), "a": scalar(0.1)}, ["y"], 11, "clip-inputs")

    @pytest.mark.parametrize("dtype, fmod", [("int64", 0), ("int32", 1), ("float32", 1)])
    def test_remainder(self, shape, dtype, fmod):
        a = rand(*shape, low=-20, high=20).astype(dtype)
        b = np.where(rand(*shape, seed=4) > 0, 3, -7).astype(dtype)
        check([node("Mod", ["a", "b"], ["y"], fmod=fmod)], {"a": a, "b": b}, ["y"], 13, "mod-inputs", atol=1e-4)

    @pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual"])
    def test_comparison(self, shape, op):
        check([node(op, ["a", "b"], ["y"])], {"a": rand(*shape), "b": rand(*shape, seed=1)}, ["y"], 12, "no-operator")

    def test_round_half_to_even(self, shape):
        x = np.round(rand(*shape) * 4) / 2
        check([node("Round", ["x"], ["y"])], {"x": x}, ["y"], 11, "no-operator")

    @pytest.mark.parametrize("op", ["Asinh", "Acosh", "Atanh"])
    def test_inverse_hyperbolic(self, shape, op):
        low, high = {"Asinh": (-2, 2), "Acosh": (1.1, 3), "Atanh": (-0.9, 0.9)}[op]
        check([node(op, ["x"], ["y"])], {"x": rand(*shape, low=low, high=high)}, ["y"], 9, "no-operator")

    @pytest.mark.parametrize(
        "op, code", [("HardSwish", "no-operator"), ("Celu", "no-operator"), ("Shrink", "no-operator")]
    )
    def test_activation(self, shape, op, code):
        check([node(op, ["x"], ["y"])], {"x": rand(*shape)}, ["y"], 14, code)

    def test_softplus_does_not_overflow(self, shape):
        check([node("Softplus", ["x"], ["y"])], {"x": rand(*shape, low=-100, high=100)}, ["y"], 9, "softplus-overflow")

    def test_mish(self, shape):
        x = rand(*shape)
        made = x * np.tanh(np.log1p(np.exp(x)))
        nodes = [node("Mish", ["x"], ["m"]), node("Asinh", ["m"], ["y"])]
        check(nodes, {"x": x}, ["y"], 18, "no-operator", expected=[np.arcsinh(made)])

    def test_gelu_with_tanh(self, shape):
        x = rand(*shape)
        made = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        nodes = [node("Gelu", ["x"], ["y"], approximate="tanh")]
        check(nodes, {"x": x}, ["y"], 20, "gelu-tanh", expected=[made.astype(np.float32)])

    def test_prelu(self, shape):
        forms = [rand(*shape, seed=5)] + ([rand(shape[-1], seed=5)] if len(shape) != 2 else [])
        for slopes in forms:
            x = rand(*shape)
            check([node("PRelu", ["x", "s"], ["y"])], {"x": x}, ["y"], 9, "prelu-slope", {"s": slopes})

    @pytest.mark.parametrize("op", ["IsNaN", "IsInf"])
    def test_special_values(self, shape, op):
        x = rand(*shape)
        x.flat[::3], x.flat[1::5] = np.nan, -np.inf
        check([node(op, ["x"], ["y"])], {"x": x}, ["y"], 13, "isnan-uint8" if op == "IsNaN" else "no-operator")


def test_prelu_of_a_square_with_slopes_along_the_last_axis():
    check([node("PRelu", ["x", "s"], ["y"])], {"x": rand(2, 4, 4)}, ["y"], 9, "prelu-slope", {"s": rand(4, seed=5)})


@pytest.mark.parametrize("shape", SHAPES)
class TestDtypes:
    @pytest.mark.parametrize("op", ["Abs", "Relu", "Exp", "Sigmoid"])
    def test_float16(self, shape, op):
        x = rand(*shape).astype(np.float16)
        made = {
            "Abs": np.abs,
            "Relu": lambda v: np.maximum(v, 0),
            "Exp": np.exp,
            "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        }
        wanted = made[op](x.astype(np.float32)).astype(np.float16)
        check([node(op, ["x"], ["y"])], {"x": x}, ["y"], 13, "dtype", expected=[wanted], atol=2e-3)

    @pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
    def test_bytes_wrap_around(self, shape, op):
        x = (np.arange(np.prod(shape)).reshape(shape) * 37).astype(np.uint8)
        made = {"Add": x + x[::-1], "Sub": x - x[::-1], "Mul": x * x[::-1]}
        check([node(op, ["x", "z"], ["y"])], {"x": x, "z": x[::-1].copy()}, ["y"], 14, "dtype", expected=[made[op]])

    def test_absolute_of_large_integers_is_exact(self, shape):
        x = np.arange(np.prod(shape)).reshape(shape) - (1 << 40)
        check([node("Abs", ["x"], ["y"])], {"x": x}, ["y"], 13, "dtype")

    @pytest.mark.parametrize("source, to", [("float16", 1), ("float32", 10), ("float16", 7)])
    def test_cast_with_float16(self, shape, source, to):
        check([node("Cast", ["x"], ["y"], to=to)], {"x": rand(*shape).astype(source)}, ["y"], 13, "cast-float16")

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "float64"])
    def test_constants_keep_their_dtype(self, shape, dtype):
        value = rand(*shape, dtype="float64") * (50 if dtype != "float64" else 1e-3)
        value = value.astype(dtype)
        import onnx

        nodes = [node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(value)), node("Identity", ["c"], ["y"])]
        code = "constant-rounded" if dtype == "float64" else "constant-widened"
        check(nodes, {"x": rand(1)}, ["y"], 13, code, expected=[value])


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 2, 5)])
class TestReductions:
    @pytest.mark.parametrize(
        "op",
        [
            "ReduceProd",
            "ReduceSumSquare",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceL1",
            "ReduceL2",
            "ReduceMean",
            "ReduceMax",
        ],
    )
    @pytest.mark.parametrize("axes, keep", [((1,), 1), ((-1, 0), 0)])
    def test_axes_as_input(self, shape, op, axes, keep):
        nodes = [node(op, ["x", "a"], ["y"], keepdims=keep)]
        code = "axes-input" if op in ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceMax") else "no-operator"
        check(nodes, {"x": rand(*shape, low=0.1)}, ["y"], 18, code, {"a": np.array(axes, np.int64)})

    @pytest.mark.parametrize("axes", [(0,), (-1,)])
    def test_sum_13(self, shape, axes):
        nodes = [node("ReduceSum", ["x", "a"], ["y"])]
        check(nodes, {"x": rand(*shape)}, ["y"], 13, "axes-input", {"a": np.array(axes, np.int64)})

    @pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
    def test_last_of_equals(self, shape, op):
        x = np.round(rand(*shape))
        check([node(op, ["x"], ["y"], axis=1, select_last_index=1, keepdims=0)], {"x": x}, ["y"], 12, "arg-last")

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_softmax_13(self, shape, axis):
        nodes = [node("Softmax", ["x"], ["s"], axis=axis), node("Round", ["s"], ["y"])]
        code = "no-operator" if axis == -1 else "softmax-axis"
        check(nodes, {"x": rand(*shape)}, ["s", "y"], 13, code)

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_log_softmax_13(self, shape, axis):
        code = "logsoftmax-underflow" if axis == -1 else "softmax-axis"
        check([node("LogSoftmax", ["x"], ["y"], axis=axis)], {"x": rand(*shape) * 60}, ["y"], 13, code, atol=1e-4)

    @pytest.mark.parametrize("opset", [11, 13])
    def test_hardmax(self, shape, opset):
        check([node("Hardmax", ["x"], ["y"], axis=1)], {"x": rand(*shape)}, ["y"], opset, "no-operator")

    def test_norm(self, shape):
        check([node("LpNormalization", ["x"], ["y"], axis=1, p=1)], {"x": rand(*shape)}, ["y"], 9, "no-operator")
