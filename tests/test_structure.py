"""Nodes out of order, values that nothing gives, values given twice; sorted nodes against onnxruntime."""

import random

import numpy as np
import pytest
from onnx import helper

from c2step.importer import backend
from c2step.importer.lint import lint
from c2step.importer.structure import order
from repair_support import model_of, node, rand, run_caffe2, run_onnxruntime

X = {"x": rand(2, 3)}
CHAIN = [
    node("Relu", ["x"], ["a"], name="first"),
    node("Softmax", ["a"], ["b"], axis=0, name="soft"),
    node("Add", ["b", "x"], ["c"], name="add"),
    node("Mul", ["c", "a"], ["y"], name="last"),
]


def codes(model):
    return [(f.code, f.node, f.effect, bool(f.repair)) for f in lint(model)]


@pytest.mark.parametrize("seed", range(4))
def test_nodes_in_any_order_are_sorted_by_repair(seed):
    nodes = list(CHAIN)
    random.Random(seed).shuffle(nodes)
    model = model_of(nodes, X, ["y"], 13)
    where = {name: index for index, n in enumerate(nodes) for name in n.output}
    late = [(n.name, name) for index, n in enumerate(nodes) for name in n.input if where.get(name, -1) > index]
    assert [row[1] for row in codes(model) if row[0] == "node-order"] == [name for name, _ in late]
    made = backend.import_model(model, True)
    np.testing.assert_allclose(run_caffe2(made, X)[0], run_onnxruntime(model, X)[0], rtol=1e-5)
    assert (
        sorted(made.node_of) == made.node_of if not late else "repaired the graph: the nodes are sorted" in made.notes
    )
    assert {made.nodes[i].name for i in made.node_of} == {"first", "soft", "add", "last"}
    assert [f.node for f in made.findings if f.code == "softmax-axis"] == ["soft"]


def test_what_a_subgraph_reads_comes_before_it():
    branch = [helper.make_graph([node(op, ["a"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])
              for op, name in (("Neg", "p"), ("Abs", "q"))]  # fmt: skip
    nodes = [node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1]), node("Relu", ["x"], ["a"])]
    inputs = {**X, "c": np.array(True)}
    assert order(model_of(nodes, inputs, ["y"], 11).graph) == [1, 0]
    assert order(model_of(nodes[::-1], inputs, ["y"], 11).graph) is None


def test_nodes_that_read_one_another_stay_and_are_told():
    nodes = [node("Add", ["x", "b"], ["a"], name="one"), node("Relu", ["a"], ["b"], name="two")]
    model = model_of(nodes, X, ["b"], 11)
    assert order(model.graph) is None and codes(model) == [("node-order", "one", "fail", False)]


def test_values_that_nothing_gives_or_that_are_given_twice():
    nodes = [
        node("Add", ["x", "gone"], ["a"], name="reads"),
        node("Relu", ["x"], ["a"], name="again"),
        node("Relu", ["a"], ["a"], name="in place"),
    ]
    found = codes(model_of(nodes, X, ["a"], 11))
    assert found == [("undefined-input", "reads", "fail", False), ("written-twice", "again", "wrong", False)]


def test_a_long_graph_backwards_is_sorted():
    nodes = [node("Relu", ["x" if i == 0 else "v%d" % (i - 1)], ["v%d" % i]) for i in range(3000)][::-1]
    assert order(model_of(nodes, X, ["v2999"], 11).graph) == list(range(2999, -1, -1))
