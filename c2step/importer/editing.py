"""Change an operator: its arguments, inputs, type or engine.  Worker side only."""

from typing import Any, List, Sequence, Tuple

from caffe2.proto import caffe2_pb2

from ..errors import UsageError, near

__all__ = ["Change", "edited"]

Change = Tuple[str, str, Any]
_FIELDS = ("f", "i", "s", "floats", "ints", "strings")
_REPEATED = ("kernels", "strides", "dilations", "pads")  # one number stands for the same in every direction


def edited(op: Any, changes: Sequence[Change]) -> Any:
    """A copy of an OperatorDef with changes; see `workspace.Change`.  UsageError where one does not fit."""
    made = caffe2_pb2.OperatorDef()
    made.CopyFrom(op)
    for what, name, value in changes:
        if what == "arg":
            _set_argument(made, name, value)
        elif what == "input":
            _set_input(made, int(name), value)
        elif what == "type":
            made.type = value
        else:
            made.engine = value
    return made


def _set_input(op: Any, position: int, blob: str) -> None:
    if position > len(op.input):
        raise UsageError("%s has %d inputs, there is no input %d" % (op.type, len(op.input), position))
    if position == len(op.input):
        op.input.append(blob)
    else:
        op.input[position] = blob


def _set_argument(op: Any, name: str, value: Any) -> None:
    found = next((arg for arg in op.arg if arg.name == name), None)
    if value is None:
        if found is None:
            known = [arg.name for arg in op.arg]
            raise UsageError("%s has no argument %s" % (op.type, name), near(name, known))
        op.arg.remove(found)
        return
    field = _field_of(found) if found is not None else ""
    count = len(getattr(found, field)) if field in ("floats", "ints", "strings") else _directions(op, name)
    if found is None:
        found = op.arg.add(name=name)
    for each in _FIELDS:
        found.ClearField(each)
    _fill(found, field, count, value)


def _directions(op: Any, name: str) -> int:
    """How many numbers `kernels`, `strides` and the like hold, from those that are there."""
    known = {arg.name: len(arg.ints) for arg in op.arg if arg.name in _REPEATED and arg.ints}
    spatial = next((n // 2 if each == "pads" else n for each, n in known.items()), 2)
    return 2 * spatial if name == "pads" else spatial


def _field_of(arg: Any) -> str:
    for field in ("f", "i", "s"):
        if arg.HasField(field):
            return field
    field = next((field for field in ("floats", "ints", "strings") if getattr(arg, field)), "")
    if not field and (arg.HasField("n") or arg.HasField("t") or arg.nets or arg.tensors):
        raise UsageError("argument %s holds a net or a tensor" % arg.name, "only numbers and text can be changed")
    return field


def _fill(arg: Any, field: str, count: int, value: Any) -> None:
    """Store a value in the form that the argument had, else in its own; UsageError where it does not fit."""
    try:
        _store(arg, field, count, value)
    except (ValueError, OverflowError, TypeError) as error:
        raise UsageError("argument %s cannot be %s: %s" % (arg.name, value, error)) from None


def _store(arg: Any, field: str, count: int, value: Any) -> None:
    many = isinstance(value, (list, tuple)) or field in ("floats", "ints", "strings") or arg.name in _REPEATED
    values: List[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
    if not isinstance(value, (list, tuple)) and arg.name in _REPEATED:
        values = values * count
    kind = field[:1] or _kind(values)
    if kind == "f" or (kind == "i" and any(isinstance(v, float) and not v.is_integer() for v in values)):
        converted: List[Any] = [_number(arg.name, v, float) for v in values]
        kind = "f"
    elif kind == "i":
        converted = [_number(arg.name, v, int) for v in values]
    else:
        converted = [str(v).encode("utf-8") for v in values]
    if many:
        getattr(arg, {"f": "floats", "i": "ints", "s": "strings"}[kind]).extend(converted)
    else:
        setattr(arg, kind, converted[0])


def _kind(values: Sequence[Any]) -> str:
    if any(isinstance(value, str) for value in values):
        return "s"
    return "f" if any(isinstance(value, float) for value in values) else "i"


def _number(name: str, value: Any, kind: Any) -> Any:
    if isinstance(value, str):
        raise UsageError("argument %s is a number, not %s" % (name, value))
    return kind(value)
