"""Commands that show the net and where the session stands in it."""

from typing import List, Optional, Sequence

from ...blob import MISSING, UNINITIALISED
from ...breakpoints import judges
from ...net import Operator, is_random, is_stateful
from ...render import listing, next_line, operator_line, quote, summary_line, table
from ..context import Context
from ..registry import command
from ..types import OperatorRange, Where
from .nesting import inside_text


@command("list", aliases=("l",))
def list_(context: Context, operators: Optional[OperatorRange] = None, *, inside: bool = False) -> str:
    """List operators: status, index, type, ONNX node, inputs and outputs.

    `-->` stands at the next one, b where a breakpoint is, ~ at those that another run may find otherwise.

    list          those around the position
    list 10-20    operators 10 to 20
    list conv1    those around the one that writes conv1
    list all      the whole net
    list 5 --inside   the nets inside operator 5
    """
    session = context.session
    if inside:
        return inside_text(context, operators.at if operators else session.position)
    shown = operators or OperatorRange.around(session.position)
    points = [p for p in session.breakpoints if p.enabled and not p.watch and p.where != "*"]
    tests = [judges(context.net, point) for point in points]
    marks = [op.index for op in context.net.operators if any(test(op) for test in tests)]
    holding = context.frames.holding
    headings = [(first, label) for label, first, _ in holding.spans] if holding else []
    return listing(context.net, session.status, session.position, shown.start, shown.stop, marks, headings)


@command(aliases=("w",))
def where(context: Context) -> str:
    """Say where the session stands: iteration, position, what ran last and what comes next."""
    session, net = context.session, context.net
    lines = ["iteration %d, %d of %d operators done" % (session.iteration, session.position, len(net))]
    if session.steps:
        last = session.steps[-1]
        lines.append("last: %d %s %s" % (last.index, last.operator.type, last.status))
    skipped = [op for op in net.operators if session.status(op.index) == "S"]
    if skipped:
        lines.append("skipped: %s" % ", ".join("%d %s" % (op.index, op.type) for op in skipped))
    return "\n".join(context.frames.lines() + lines + [next_line(net, session.position)])


@command()
def op(context: Context, where: Optional[Where] = None) -> str:
    """Show an operator whole, the next one when WHERE is not given: its OperatorDef and its ONNX node."""
    session = context.session
    if where is None and session.position >= len(context.net):
        return next_line(context.net, session.position)
    operator = session.operator(where) if where is not None else context.net.operators[session.position]
    return "\n".join([operator_line(operator), session.describe(operator.index).rstrip(), *_remarks(operator)])


def _remarks(operator: Operator) -> List[str]:
    remarks = []
    if operator.in_place:
        remarks.append("in place: it overwrites %s" % ", ".join(map(quote, operator.in_place)))
    if is_random(operator):
        remarks.append("random: running it again may give other values")
    if is_stateful(operator):
        remarks.append("stateful: it keeps or changes state outside its outputs")
    return remarks


@command()
def inputs(context: Context) -> str:
    """Show what the net takes: external_input, declared type and shape, and what is fed."""
    session = context.session
    declared = {item.name: item for item in session.model.inputs}
    unfed = frozenset(session.unfed())
    names = dict.fromkeys(list(declared) + list(context.net.external_input) + list(unfed))
    rows = []
    for name in names:
        item = declared.get(name)
        wanted = "%s %s" % (item.dtype or "any type", _dims(item.shape)) if item else "weight"
        rows.append([quote(name), wanted, "NOT FED" if name in unfed else summary_line(session.summary(name))])
    return "\n".join(table(rows)) or "the net takes nothing"


def _dims(shape: Optional[Sequence[object]]) -> str:
    if shape is None:
        return "any shape"
    return "(%s%s)" % (", ".join(map(str, shape)), "," if len(shape) == 1 else "")


@command()
def outputs(context: Context) -> str:
    """Show what the net gives: external_output, and the values that are there by now."""
    session = context.session
    rows = []
    for name in context.net.external_output or [item.name for item in session.model.outputs]:
        summary = session.summary(name)
        there = summary.kind not in (MISSING, UNINITIALISED) and session.version(name) > 0
        rows.append([quote(name), summary_line(summary) if there else "not written yet"])
    return "\n".join(table(rows)) or "the net declares no output"
