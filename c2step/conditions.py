"""Conditions on what an operator read and wrote.

    nan                         any output holds a NaN; so too inf, zeros, nan > 3
    max > 10 and dtype != int64
    shape != (1, 64, 56, 56)
    input.max > 1e6             an input; conv1.std == 0, blob("a b").nan for a blob by name
    cos < 0.999, fail           against the loaded reference: also max_abs, max_rel, rel_l2, ulp, bad, ratio
    np.abs(conv1).max() > 3     any Python; blobs by their names, blob("a b"), out (each output), inputs, outputs

A figure without a name in front holds when it holds for any output.  Conditions that need summaries alone
are evaluated where the operators run (this module is loaded there too), the others by the front.
"""

import ast
import builtins
import itertools
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from .errors import C2StepError, UsageError

__all__ = ["FIGURES", "PYTHON", "REFERENCE", "SUMMARY", "VERSUS", "Condition", "Facts"]

SUMMARY, REFERENCE, PYTHON = "summary", "reference", "python"
FIGURES = ("min", "max", "absmax", "mean", "std", "zeros", "nan", "inf", "size", "shape", "dtype", "kind")
VERSUS = ("fail", "cos", "max_abs", "max_rel", "rel_l2", "mean_abs", "ulp", "bad", "ratio")
_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "string")
_OF_ARRAYS = ("size", "shape", "dtype")  # what numpy calls so too
_SIDES = {"input": "input", "output": "output", "out": "output"}
_OFFERED = ("np", "blob", "out", "inputs", "outputs")
_PLAIN = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Tuple, ast.operator, ast.boolop, ast.unaryop, ast.cmpop,
          ast.expr_context, ast.Expression)  # fmt: skip
_HINT = "such as nan, max > 10, shape != (1, 64), cos < 0.999, fail, or Python over blobs: np.abs(conv1).max() > 3"


class Facts:
    """What is known of one operator after it ran; whoever evaluates a condition provides it."""

    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()

    def summary(self, name: str, side: str) -> Any:
        """The summary of a blob as the operator read it (`input`) or left it (`output`); None where there is none.

        A `BlobSummary`, or what has its attributes.
        """
        raise NotImplementedError

    def array(self, name: str, side: str) -> Any:
        """The value of a blob, numbers for Int8; None where there is none."""
        raise NotImplementedError

    def compared(self, name: str) -> Optional[Mapping[str, Any]]:
        """The figures of an output against the loaded reference; None where there is nothing to compare with."""
        raise NotImplementedError


class _Term(NamedTuple):
    """A figure in an expression: whose (`output`, `input`, `reference`, or a blob's name in `blob`), and which."""

    owner: str
    figure: str
    blob: str = ""

    def label(self, source: Optional[str]) -> str:
        """What to call it, where `source` is the input that it is evaluated for."""
        blob = self.blob or (source if self.owner == "input" else None)
        return self.figure if blob is None else "%s of %s" % (self.figure, blob)


class Condition:
    """A condition, parsed once; UsageError where it is no expression.

    `kind` says what it needs: summaries, the reference, or whole arrays.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.kind = SUMMARY
        terms = self._parsed(_Terms(plain=True))
        if self.kind == PYTHON:
            terms = self._parsed(_Terms(plain=False))
        self._terms = terms.found
        self._owners = {term.owner for term in self._terms.values()}
        if self.kind == SUMMARY and self.uses_reference:
            self.kind = REFERENCE

    def __str__(self) -> str:
        return self.text

    def _parsed(self, terms: "_Terms") -> "_Terms":
        try:
            tree = ast.parse(self.text, mode="eval")
            tree = ast.fix_missing_locations(terms.visit(tree))
            self._code = compile(tree, "<condition>", "eval")
        except (SyntaxError, ValueError) as error:
            reason = getattr(error, "msg", None) or str(error)
            raise UsageError("condition %s: %s" % (self.text, reason), _HINT) from None
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        made = {n.id for n in names if isinstance(n.ctx, ast.Store)} | {
            a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)
        }
        self._names = {node.id for node in names} - set(terms.found) - made
        self._called_for = [name for name in map(_blob_called, ast.walk(tree)) if name is not None]
        if self._names or not all(isinstance(n, _PLAIN + (ast.Name,)) or _is_constant(n) for n in ast.walk(tree)):
            self.kind = PYTHON
        return terms

    @property
    def uses_reference(self) -> bool:
        """Whether it needs golden values."""
        return any(term.owner == "reference" for term in self._terms.values())

    @property
    def reads_inputs(self) -> bool:
        """Whether it asks for figures of what the operator read."""
        return any(term.owner in ("input", "blob") for term in self._terms.values())

    @property
    def blobs(self) -> List[str]:
        """The blobs that it names."""
        named = [term.blob for term in self._terms.values() if term.blob] + self._called_for
        return named + [n for n in sorted(self._names) if n not in _OFFERED and not hasattr(builtins, n)]

    def holds(self, facts: Facts) -> str:
        """Why it holds after an operator, in words; empty where it does not.

        An expression that cannot be evaluated holds, and says so.
        """
        values: Optional[Dict[str, Any]] = None
        for output, source in itertools.product(self._each(facts, "output"), self._each(facts, "input")):
            try:
                values = self._values(facts, output, source)
                if values is not None and _true(eval(self._code, values)):
                    return self._words(values, output, source)
            except _NoValue:  # a blob that is still to be written
                continue
            except C2StepError as error:
                return "%s: %s" % (self.text, error.message)
            except Exception as error:
                absent = values is not None and None in [values[key] for key in self._terms]
                if self.kind == PYTHON or not isinstance(error, TypeError) or not absent:
                    return "%s: %s: %s" % (self.text, type(error).__name__, error)
                # a figure that is not there, such as the maximum of nothing, is neither more nor less
        return ""

    def _each(self, facts: Facts, side: str) -> List[Optional[str]]:
        """The outputs (or inputs) that it is evaluated for; one None where it names none."""
        owners = self._owners
        if side == "output" and ("output" in owners or "reference" in owners or "out" in self._names):
            return list(dict.fromkeys(facts.outputs))
        return list(dict.fromkeys(facts.inputs)) if side == "input" and "input" in owners else [None]

    def _values(self, facts: Facts, output: Optional[str], source: Optional[str]) -> Optional[Dict[str, Any]]:
        """The names of the expression and their values; None where one of them has no value."""
        values = self._arrays(facts, output) if self.kind == PYTHON else {"__builtins__": {}}
        for key, term in self._terms.items():
            name = term.blob or (source if term.owner == "input" else output) or ""
            side = _side(facts, name) if term.blob else term.owner
            found = facts.compared(name) if side == "reference" else facts.summary(name, side)
            if found is None:
                return None
            values[key] = found.get(term.figure) if side == "reference" else _figure(found, term.figure)
        return values

    def _arrays(self, facts: Facts, output: Optional[str]) -> Dict[str, Any]:
        def blob(name: str) -> Any:
            array = facts.array(name, _side(facts, name))
            if array is None:
                raise _NoValue
            return array

        values: Dict[str, Any] = {"np": np, "blob": blob}
        if output is not None and "out" in self._names:
            values["out"] = facts.array(output, "output")
        for side, names in (("inputs", facts.inputs), ("outputs", facts.outputs)):
            if side in self._names:
                values[side] = [facts.array(name, side[:-1]) for name in names]
        for name in self._names - set(values):
            array = facts.array(name, _side(facts, name))
            if array is not None:
                values[name] = array
            elif not hasattr(builtins, name):
                raise _NoValue
        return values

    def _words(self, values: Mapping[str, Any], output: Optional[str], source: Optional[str]) -> str:
        said = ["%s is %s" % (term.label(source), _short(values[key])) for key, term in self._terms.items()
                if term.figure != "fail"]  # fmt: skip
        words = ", ".join(said) if said and self.kind != PYTHON else self.text
        return "%s: %s" % (output, words) if output is not None else words


class _NoValue(Exception):
    """A blob has no value at this operator."""


class _Terms(ast.NodeTransformer):
    """Gives every figure in an expression a name of its own, and remembers what it stands for.

    `plain` expressions have no arrays, so `dtype == float32` is a word and `x.shape` the summary's.
    """

    def __init__(self, plain: bool) -> None:
        self.found: Dict[str, _Term] = {}
        self._plain = plain

    def _named(self, term: _Term, node: ast.AST) -> ast.AST:
        key = next((key for key, known in self.found.items() if known == term), "_%d" % len(self.found))
        self.found[key] = term
        return ast.copy_location(ast.Name(key, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A figure of any output, or against the reference."""
        if node.id in FIGURES or node.id in VERSUS:
            return self._named(_Term("output" if node.id in FIGURES else "reference", node.id), node)
        return ast.copy_location(ast.Constant(node.id), node) if self._plain and node.id in _DTYPES else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A figure of a blob: `input.max`, `conv1.nan`."""
        owner = _owner(node)
        if owner is None or node.attr not in FIGURES:
            return self.generic_visit(node)
        if owner in _SIDES:
            return self._named(_Term(_SIDES[owner], node.attr), node)
        if node.attr in _OF_ARRAYS and not self._plain:
            return self.generic_visit(node)
        return self._named(_Term("blob", node.attr, owner), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """What is called is Python's: `conv1.max()`, `max(a, b)`."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        """A tuple, so that `shape == [1, 64]` means what it says."""
        self.generic_visit(node)
        return ast.copy_location(ast.Tuple(node.elts, node.ctx), node) if self._plain else node


def _owner(node: ast.Attribute) -> Optional[str]:
    """Whose attribute it is: a name, or the name in `blob("a b")`; None for any other Python."""
    return node.value.id if isinstance(node.value, ast.Name) else _blob_called(node.value)


def _blob_called(node: ast.AST) -> Optional[str]:
    """The name in `blob("a b")`; None for any other Python."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "blob":
        return None
    if len(node.args) != 1 or not _is_constant(node.args[0]):
        return None
    return str(ast.literal_eval(node.args[0]))


def _is_constant(node: ast.AST) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def _side(facts: Facts, name: str) -> str:
    return "input" if name in facts.inputs and name not in facts.outputs else "output"


def _figure(summary: Any, name: str) -> Any:
    if name != "absmax":
        return getattr(summary, name)
    sizes = [abs(value) for value in (summary.min, summary.max) if value is not None]
    return max(sizes) if sizes else None


def _true(value: Any) -> bool:
    """An array holds where any of its elements does."""
    return bool(np.any(value)) if isinstance(value, np.ndarray) else bool(value)


def _short(value: Any) -> str:
    return "%.6g" % value if isinstance(value, float) else str(value)
