"""Float64 as the judge: which side of a difference is off, and whether it is more than rounding."""

import sys
from typing import Dict, List, Optional

import numpy as np

from ..blob import Blob
from ..errors import C2StepError
from ..references import NodeTruth, Reference, Truth
from ..stepper import Session
from .blame import OK, ORIGIN, UNCOMPARED, Blame, Judged
from .golden import Golden
from .verdict import Verdict

__all__ = ["weigh"]

_ROUNDS = 16.0
"""A side is off when it is further from float64 than so many times what rounding its inputs moves it."""


def weigh(session: Session, reference: Reference, found: Blame, python: Optional[str] = None) -> None:
    """For every wrong or borderline operator, compute its ONNX node in float64 on golden inputs.

    An operator whose difference is rounding alone, or where the reference is the side that is off, is
    no longer an origin; the reason says so either way.
    """
    model = session.model.files.get("onnx")
    if not model:
        found.notes.append("--truth needs the ONNX model; these are Caffe2 nets")
        return
    golden = Golden(session.model.predict_net, reference)
    runtime = getattr(session.workspace, "runtime", None)
    with Truth(model, python or (runtime.python if runtime else sys.executable)) as truth:
        for judged in found.operators:
            if judged.operator.node and (
                judged.alone.bad or any(c.borderline for c in judged.alone.comparisons.values())
            ):
                _weigh_one(judged, golden, truth, session)
    found.origins = [judged for judged in found.operators if judged.label == ORIGIN]
    if found.verdict is Verdict.FAIL and not found.origins and not any(j.run.bad for j in found.operators):
        found.verdict = Verdict.PASS if found.tally.verdict is Verdict.PASS else Verdict.INCONCLUSIVE


def _weigh_one(judged: Judged, golden: Golden, truth: Truth, session: Session) -> None:
    node = judged.operator.node
    assert node
    try:
        exact = truth.node(node.index, _inputs(node.inputs, golden, session))
    except C2StepError as error:
        judged.hints.append("float64: %s" % error.message)
        return
    says = [_side(judged, slot, golden, exact) for slot in judged.alone.comparisons]
    _settle(judged, [word for word in says if word], exact)


def _inputs(names: "tuple[str, ...]", golden: Golden, session: Session) -> Dict[str, np.ndarray]:
    found = {}
    for name in names:
        if name in golden.reference:
            blob: Blob = golden.value(name)
            if blob.array is not None:
                found[name] = np.asarray(blob.array)
        elif name in session.inputs:
            found[name] = session.inputs[name]
    return found


def _side(judged: Judged, slot: int, golden: Golden, exact: NodeTruth) -> str:
    """Which side is off: caffe2, reference, both or noise; empty where it cannot be told."""
    blob = judged.operator.outputs[slot]
    name = judged.operator.node.value_in(blob) if judged.operator.node else blob
    value, made, theirs = exact.values.get(name), judged.values.get(slot), golden.blob((judged.operator.index, slot))
    if value is None or made is None or theirs is None or theirs.array is None:
        return ""
    ours_off = _times(made, value, exact.noise.get(name))
    theirs_off = _times(np.asarray(theirs.real()), value, exact.noise.get(name))
    judged.hints.append("float64 (%s): Caffe2 is off by %s its rounding noise, the reference by %s"
                        % (exact.how, _factor(ours_off), _factor(theirs_off)))  # fmt: skip
    if ours_off > _ROUNDS:
        return "both" if theirs_off > _ROUNDS else "caffe2"
    return "reference" if theirs_off > _ROUNDS else "noise"


def _times(values: np.ndarray, exact: np.ndarray, noise: Optional[np.ndarray]) -> float:
    """The largest distance from float64, in units of the rounding noise there; inf for a wrong shape or NaN."""
    if values.shape != exact.shape:
        return float("inf")
    if not values.size:
        return 0.0
    with np.errstate(all="ignore"):
        unit = np.abs(exact) * 2.0**-24 + np.abs(exact).max(initial=0, where=np.isfinite(exact)) * 2.0**-24 / 64
        if noise is not None:
            unit = np.maximum(unit, noise)
        distance = np.abs(values.astype(np.float64) - exact) / np.maximum(unit, 1e-300)
        same = (np.isnan(values) & np.isnan(exact)) | (values == exact)
        distance = np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
    return float(distance.max())


def _factor(times: float) -> str:
    return "another shape, NaN or Inf, not" if times == float("inf") else "%.3g times" % times


def _settle(judged: Judged, says: List[str], exact: NodeTruth) -> None:
    if not says or judged.label != ORIGIN or exact.doubt:
        return
    if all(word == "noise" for word in says):
        judged.label, judged.reason = OK, "rounding alone: both sides are as close to float64 as float32 can be"
    elif all(word in ("reference", "noise") for word in says):
        judged.label, judged.reason = UNCOMPARED, "the reference is off, Caffe2 agrees with float64"
