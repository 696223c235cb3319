"""What a version of Caffe2 does not have of the operators, arguments and databases in two nets, and what in a net that
serves was left as it was for training.  Worker side only.
"""

from typing import Any, Dict, Iterable, List, Optional, Set

from ..net import Net

__all__ = ["known_arguments", "lint_nets", "lint_pair", "missing"]


# What Caffe2's base class of convolutions and poolings reads; their schemas list little of it, or nothing.
_WINDOWED = ("Conv", "Pool", "PadImage", "Im2Col", "Col2Im")
_WINDOWS = tuple(
    name + ending for name in ("kernel", "stride", "dilation", "adj") for ending in ("", "s", "_h", "_w")
) + (
    *("pad", "pads", "pad_t", "pad_l", "pad_b", "pad_r", "legacy_pad", "global_pooling", "group", "order", "no_bias"),
    *("shared_buffer", "float16_compute", "exhaustive_search", "deterministic", "ws_nbytes_limit"),
    *("count_include_pad", "deformable_group"),
)
_FILLING = ("mode", "value")


def missing(net: Any, role: str, plain: Optional[Net] = None) -> List[Dict[str, Any]]:
    """The operators and databases of a net that this Caffe2 does not have; `plain` is the net with its ONNX nodes."""
    from caffe2.python import workspace

    known = set(workspace.RegisteredOperators())
    return [
        _finding("operator-missing", role, index, op.type, "fail", "this Caffe2 has no operator %s" % op.type, plain)
        for index, op in enumerate(net.op)
        if op.type not in known
    ] + _databases(net, role, plain)


def lint_pair(init_net: Any, predict_net: Any) -> List[Dict[str, Any]]:
    """What is known beforehand of nets that came without an ONNX model."""
    return missing(init_net, "init_net") + missing(predict_net, "predict_net") + _training(predict_net)


def lint_nets(init_net: Any, predict_net: Any, plain: Optional[Net] = None) -> List[Dict[str, Any]]:
    """Operators and databases that this Caffe2 does not have, and arguments that its schemas do not list."""
    found = missing(init_net, "init_net") + missing(predict_net, "predict_net", plain)
    return found + _unlisted(init_net, "init_net", None) + _unlisted(predict_net, "predict_net", plain)


_TRAINED = {
    "SpatialBN": "it takes mean and variance of the batch that it is fed, and changes the running ones; a net that "
    "serves has is_test=1 and no output of it but the first",
    "Dropout": "it draws at random what it drops; a net that serves has is_test=1",
}


def _training(net: Any) -> List[Dict[str, Any]]:
    """Operators that were left in training mode, in a net that has no gradients: such a net serves."""
    if any(op.type.endswith("Gradient") for op in net.op):
        return []
    found = []
    for index, op in enumerate(net.op):
        given = {arg.name: arg.i for arg in op.arg}
        if op.type in _TRAINED and not given.get("is_test"):
            mode = "0" if "is_test" in given else "not given"
            message = "is_test is %s, as in training: %s" % (mode, _TRAINED[op.type])
            found.append(_finding("training-mode", "predict_net", index, op.type, "wrong", message, None))
    return found


def _databases(net: Any, role: str, plain: Optional[Net]) -> List[Dict[str, Any]]:
    """Operators that open a database of a kind that this Caffe2 was built without."""
    from caffe2.python import workspace

    kinds = workspace.C.registered_dbs()
    words = "this Caffe2 was built without databases of type %s; it has %s"
    return [
        _finding("database-missing", role, index, op.type, "fail", words % (kind, ", ".join(sorted(kinds))), plain)
        for index, op in enumerate(net.op)
        for kind in (arg.s.decode("utf-8", "replace") for arg in op.arg if arg.name == "db_type")
        if kind not in kinds
    ]


def _unlisted(net: Any, role: str, plain: Optional[Net]) -> List[Dict[str, Any]]:
    """A note for each operator type with arguments that the type's schema does not list, at its first operator.

    A schema that lists no argument at all, as Conv's, says nothing about arguments.
    """
    listed: Dict[str, Set[str]] = {}
    unlisted: Dict[str, Dict[str, int]] = {}  # the arguments of a type, with the first operator that has them
    for index, op in enumerate(net.op):
        if op.type not in listed:
            listed[op.type] = _arguments(op.type)
        for arg in op.arg if listed[op.type] else ():
            if arg.name not in listed[op.type]:
                unlisted.setdefault(op.type, {}).setdefault(arg.name, index)
    return [
        _finding("argument-unlisted", role, min(names.values()), op_type, "note", _words(op_type, names), plain)
        for op_type, names in unlisted.items()
    ]


def _words(op_type: str, names: Iterable[str]) -> str:
    return "the schema of %s in this Caffe2 does not list %s, which it may pass over or read all the same" % (
        op_type,
        ", ".join(names),
    )


def known_arguments(op_type: str) -> List[str]:
    """The arguments that are known of an operator type: those of its schema, and those that its family reads."""
    family = set(_WINDOWS) if any(word in op_type for word in _WINDOWED) else set()
    return sorted(_arguments(op_type) | family | set(_FILLING if "PadImage" in op_type else ()))


def _arguments(op_type: str) -> Set[str]:
    """The arguments that the schema of an operator type lists; empty where it lists none or there is no schema."""
    from caffe2.python import workspace

    schema = workspace.C.OpSchema.get(op_type)
    return {arg.name for arg in schema.args} if schema is not None else set()


def _finding(
    code: str, role: str, index: int, op_type: str, effect: str, message: str, plain: Optional[Net]
) -> Dict[str, Any]:
    place = "%s operator %d" % (role, index)
    node = plain.operators[index].node if plain else None
    return {
        "code": code,
        "node": "%s (%s)" % (place, node.label) if node else place,
        "op_type": op_type,
        "effect": effect,
        "repair": "",
        "message": message,
        "index": index,
    }
