"""Cut an operator out of a model so that it runs on its own, and see whether it does there what it did here.

    predict_net, init_net   .pb (and .pbtxt): the operators, and the values that they read
    inputs/ observed/       what they read and wrote, as .npy; golden/ what they should have written
    model.onnx, test_data_set_0/   the ONNX nodes as an ONNX backend test, where the model is ONNX
    run.py                  runs it; needs Caffe2 and numpy alone
    repro.json, README.md   what it is, what it does, and on which versions

It is run in a process of its own before anything is said about it.
"""

import copy
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .blob import TENSOR, Blob
from .breakpoints import Place, matcher
from .capture import Capture, file_name, write_blob
from .compare.golden import Golden
from .errors import CaptureError, UsageError
from .history import Step
from .net import BlobVersion, Operator, is_random, is_stateful
from .references import Reference
from .stepper import Session

__all__ = ["Repro", "make_repro"]

_RANGE = re.compile(r"(\d+)[-:](\d+)$")
_SAME, _DIFFERS, _FAILED = 0, 1, 3  # how run.py ends


@dataclass
class Repro:
    """What was written, what is expected of it and whether it does that.

    `expects` is "outputs", "error", "signal" or "nothing" (the operators had not run here).
    """

    directory: str
    operators: Tuple[Operator, ...]
    expects: str
    reproduces: bool = False
    verdict: str = ""
    notes: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "%s: %s" % (self.directory, self.verdict)


def make_repro(
    session: Session,
    where: str,
    directory: str,
    reference: Optional[Reference] = None,
    timeout: Optional[float] = 120.0,
) -> Repro:
    """Cut out the operators that `where` names: an operator with those of its ONNX node, or FIRST-LAST.

    They must have run, or be next.  `reference` gives golden outputs.  `timeout` is in seconds.  Raises
    UsageError, CaptureError.
    """
    return _Cut(session, where, directory, reference).made(timeout)


class _Cut:
    def __init__(self, session: Session, where: str, directory: str, reference: Optional[Reference]) -> None:
        self.session = session
        self.directory = os.path.abspath(directory)
        self.operators = operators_of(session, where)
        self.first, self.last = self.operators[0].index, self.operators[-1].index + 1
        self.golden = Golden(session.model.predict_net, reference) if reference else None
        self.steps = {s.index: s for s in session.steps if s.iteration == session.iteration}
        self.failure = _failure(session, self.operators, self.steps)
        self.notes: List[str] = []
        self._check_place()

    def _check_place(self) -> None:
        ran = all(op.index in self.steps for op in self.operators)
        if not ran and not self.first <= self.session.position < self.last:
            raise UsageError(
                "%s has not run, so what it reads is not known" % self.operators[0], "run to it: until %d" % self.first
            )

    # -- values -------------------------------------------------------------------------------

    def inputs(self) -> List[Blob]:
        """What the operators read and do not write themselves, as it was then."""
        found: Dict[str, BlobVersion] = {}
        written: Dict[str, bool] = {}
        for op in self.operators:
            for name, version in self._reads(op):
                if name not in written:
                    found.setdefault(name, BlobVersion(name, version))
            written.update((name, True) for name in op.writes)
        blobs = [self.session.fetch(name, version) for name, version in found.values()]
        self.notes += ["input %s holds no array: %s" % (b.name, b.text or b.kind) for b in blobs if b.array is None]
        return [blob for blob in blobs if blob.array is not None]

    def _reads(self, op: Operator) -> Sequence[BlobVersion]:
        step = self.steps.get(op.index)
        if step is not None:
            return step.inputs
        known = self.session.history.exists
        return [BlobVersion(n, self.session.version(n)) for n in op.reads if n and (n in op.inputs or known(n))]

    def observed(self) -> Dict[str, Blob]:
        """What the operators wrote here, the last value of each blob."""
        found: Dict[str, Blob] = {}
        for step in (self.steps[op.index] for op in self.operators if op.index in self.steps):
            for output in step.written:
                blob = self.session.kept(output)
                if blob is not None and blob.array is not None:
                    found[output.name] = blob
        return found if self.failure is None else {}

    def wanted(self) -> Dict[str, Blob]:
        """What the operators should have written, by the reference."""
        found: Dict[str, Blob] = {}
        for op in self.operators:
            for slot, name in enumerate(op.outputs):
                blob = self.golden.blob((op.index, slot)) if self.golden else None
                if blob is not None and blob.array is not None:
                    found[name] = blob
        return found

    # -- writing ------------------------------------------------------------------------------

    def made(self, timeout: Optional[float]) -> Repro:
        """Write everything, run it, and say how that went."""
        _begin(self.directory)
        inputs, observed, golden = self.inputs(), self.observed(), self.wanted()
        rows = self._write("inputs", {blob.name: blob for blob in inputs})
        seen, right = self._write("observed", observed), self._write("golden", golden)
        outputs = dict(seen, **right)
        cut = self.session.protected(
            lambda: self.session.workspace.cut(
                self.first, self.last, self.directory, self._absolute(rows), self._absolute(outputs)
            )
        )
        about = self._about(rows, seen, right, cut)
        repro = Repro(self.directory, self.operators, about["expects"]["kind"], notes=self.notes)
        self._save("repro.json", json.dumps(about, indent=1) + "\n")
        self._save("run.py", _SCRIPT % about["title"])
        self._judge(repro, about, timeout)
        about["notes"], about["verdict"] = self.notes, repro.verdict
        self._save("repro.json", json.dumps(about, indent=1) + "\n")
        self._save("README.md", _readme(about))
        return repro

    def _write(self, folder: str, blobs: Mapping[str, Blob]) -> Dict[str, Dict[str, Any]]:
        rows: Dict[str, Dict[str, Any]] = {}
        for number, (name, blob) in enumerate(blobs.items()):
            file = "%s/%s" % (folder, file_name(number, "v", name, blob.kind))
            os.makedirs(os.path.join(self.directory, folder), exist_ok=True)
            write_blob(os.path.join(self.directory, file), blob)
            rows[name] = {"file": file, "kind": blob.kind, "scale": blob.scale, "zero_point": blob.zero_point}
        return rows

    def _absolute(self, rows: Mapping[str, Dict[str, Any]]) -> List[Dict[str, Any]]:
        return [dict(row, name=name, file=os.path.join(self.directory, row["file"])) for name, row in rows.items()]

    def _save(self, name: str, text: str) -> None:
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _about(self, rows: Any, seen: Any, right: Any, cut: Dict[str, Any]) -> Dict[str, Any]:
        model = self.session.model
        unfed = [name for name in cut["unfilled"] if rows[name]["kind"] != TENSOR]
        self.notes += ["input %s could not be written so that Caffe2 reads it back" % name for name in unfed]
        self.notes += [_unsteady(op) for op in self.operators if is_random(op) or is_stateful(op)]
        if cut["onnx"]:
            self.notes.append("ONNX backend test: %s" % cut["onnx"])
        versions = self.session.versions_of_runtime
        nodes = list(dict.fromkeys(op.node.label for op in self.operators if op.node))
        return {
            "title": "%s of %s" % (", ".join(map(str, self.operators)), os.path.basename(model.path)),
            "model": model.path,
            "sha256": model.sha256,
            "operators": [op.index for op in self.operators],
            "nodes": nodes,
            "iteration": self.session.iteration,
            "feed": {name: row["file"] for name, row in rows.items() if row["kind"] == TENSOR},
            "inputs": rows,
            "observed": seen,
            "golden": right,
            "expects": self._expects(),
            "versions": versions,
            "image": "c2step:%s" % str(versions.get("torch", "")).partition("+")[0],
        }

    def _expects(self) -> Dict[str, Any]:
        if self.failure is not None:
            died, _, error = (self.failure["error"] or "").partition(": ")
            if self.failure["status"] == "died":
                return {"kind": "signal", "signal": died, "error": error}
            return {"kind": "error", "error": self.failure["error"]}
        ran = all(op.index in self.steps for op in self.operators)
        return {"kind": "outputs" if ran else "nothing"}

    # -- running ------------------------------------------------------------------------------

    def _judge(self, repro: Repro, about: Dict[str, Any], timeout: Optional[float]) -> None:
        script = os.path.join(self.directory, "run.py")
        runtime = copy.copy(getattr(self.session.workspace, "runtime", None))
        if runtime:
            runtime.share([self.directory])
        command = runtime.command([script]) if runtime else [sys.executable, script]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        try:
            done = subprocess.run(command, cwd=self.directory, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout)  # fmt: skip
            code = runtime.ending(done.returncode) if runtime else done.returncode
            text = done.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            if runtime and hasattr(runtime, "image"):  # what was ended is Docker's client alone
                runtime.kill(0)
            code, text = None, ""
        repro.reproduces, repro.verdict = _verdict(about["expects"], code, text, timeout)
        if about["golden"] and code is not None and code >= 0:
            repro.notes += [line for line in text.splitlines() if line.startswith("golden ")]


def operators_of(session: Session, where: Place) -> Tuple[Operator, ...]:
    """The operators to cut out: FIRST-LAST, or the operator that WHERE names and those of its ONNX node beside it."""
    operators, where = session.model.predict_net.operators, str(where)
    match = _RANGE.match(where)
    if match:
        first, last = int(match.group(1)), int(match.group(2))
        if not first <= last < len(operators):
            raise UsageError(
                "there are no operators %s" % where, "predict_net has operators 0 to %d" % (len(operators) - 1)
            )
        return operators[first : last + 1]
    first = last = _operator(session, where).index
    node = operators[first].node
    while node is not None and first and operators[first - 1].node == node:
        first -= 1
    while node is not None and last + 1 < len(operators) and operators[last + 1].node == node:
        last += 1
    return operators[first : last + 1]


def _operator(session: Session, where: str) -> Operator:
    """The next operator that `where` names, or where that lies ahead the last one that has run."""
    operator = session.operator(where)
    if operator.index <= session.position or "@" in where:
        return operator
    net = session.model.predict_net
    fits = matcher(net, where)
    behind = [op for op in net.operators[: session.position] if fits(op)]
    return behind[-1] if behind else operator


def _failure(session: Session, operators: Sequence[Operator], steps: Mapping[int, Step]) -> Optional[Dict[str, Any]]:
    """The journal's row of the operator that failed or died where the session stands, if one of these did."""
    position = session.position
    if position in steps or position not in [op.index for op in operators] or session.status(position) not in "FD":
        return None
    rows = [row for row in Capture(session.capture_directory).rows if row["index"] == position]
    return rows[-1] if rows and rows[-1]["status"] in ("failed", "died") else None


def _unsteady(op: Operator) -> str:
    how = "draws random numbers" if is_random(op) else "keeps state outside its outputs"
    return "%s %s: on its own it begins anew" % (op, how)


def _begin(directory: str) -> None:
    """A folder that is new, empty, or an older repro."""
    try:
        os.makedirs(directory, exist_ok=True)
        if os.listdir(directory) and not os.path.exists(os.path.join(directory, "repro.json")):
            raise CaptureError("%s is not empty and holds no repro" % directory, "name a new folder")
    except OSError as error:
        raise CaptureError("cannot write %s: %s" % (directory, error.strerror or error)) from error


def _verdict(expects: Dict[str, Any], code: Optional[int], text: str, timeout: Optional[float]) -> Tuple[bool, str]:
    """Whether it did on its own what it did in the session, in words."""
    if code is None:
        return False, "does not reproduce: it does not end within %g s on its own" % (timeout or 0)
    if code < 0 or code > 128:
        name = _signal_name(code)
        if (expects["kind"], expects.get("signal")) == ("signal", name):
            return True, "reproduces: its process ends with %s, too" % name
        return False, "does not reproduce: on its own its process ends with %s" % name
    if code == _FAILED:
        return _same_error(expects, text)
    if code not in (_SAME, _DIFFERS):
        return False, "does not run on its own: it ends with status %d" % code
    return _ran(expects, code, text)


def _ran(expects: Dict[str, Any], code: int, text: str) -> Tuple[bool, str]:
    if expects["kind"] in ("signal", "error"):
        failing = "ending its process" if expects["kind"] == "signal" else "an error"
        return False, "does not reproduce: on its own it runs without %s" % failing
    if expects["kind"] == "nothing":
        return True, "runs on its own; it has not run in the session"
    if code == _DIFFERS:
        return False, "does not reproduce: %s" % "; ".join(line for line in text.splitlines() if " differs" in line)
    if "observed " not in text:
        return True, "runs on its own, and wrote nothing here that could be compared"
    return True, "reproduces: the same bytes in every output"


def _same_error(expects: Dict[str, Any], text: str) -> Tuple[bool, str]:
    said = " ".join(text.partition("error: ")[2].split())
    if expects["kind"] != "error":
        return False, "does not reproduce: on its own it fails (%s)" % said[:200]
    words = re.sub(r" \[[^\]]*:\d+\]$", "", expects["error"] or "")
    same = words in said
    return same, "reproduces: the same error" if same else "does not reproduce: another error (%s)" % said[:200]


def _signal_name(code: int) -> str:
    number = code - 128 if code > 128 else -code
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _readme(about: Dict[str, Any]) -> str:
    versions = about["versions"]
    lines = [
        "# %s" % about["title"],
        "",
        "Cut out of %s (%s)."
        % (about["model"], ", ".join("sha256 %s" % digest for digest in about["sha256"].values())),
        "",
        "    python run.py",
        "",
        "needs Caffe2 and numpy alone. Here it %s." % about["verdict"],
        "",
        "Made on torch %s, Python %s, numpy %s; the image is %s."
        % (versions.get("torch"), versions.get("python"), versions.get("numpy"), about["image"]),
        "The nets also open in the debugger: `c2step .`",
    ]
    if about["notes"]:
        lines += [""] + ["- %s" % note for note in about["notes"]]
    return "\n".join(lines) + "\n"


_SCRIPT = '''"""%s: run it again.  Needs Caffe2 and numpy alone."""
import json, os, sys

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

os.chdir(os.path.dirname(os.path.abspath(__file__)))
with open("repro.json") as file:
    about = json.load(file)


def net(name):
    with open(name, "rb") as file:
        return caffe2_pb2.NetDef.FromString(file.read())


def value(name, kind):
    return workspace.FetchInt8Blob(name).data if kind == "int8" else workspace.FetchBlob(name)


workspace.RunNetOnce(net("init_net.pb"))
for name, file in about["feed"].items():
    workspace.FeedBlob(name, np.load(file))
try:
    workspace.RunNetOnce(net("predict_net.pb"))
except RuntimeError as error:
    print("error: %%s" %% error)
    sys.exit(3)

differing = 0
for side in ("observed", "golden"):
    for name, row in about[side].items():
        if row["kind"] == "string":
            continue
        found, wanted = value(name, row["kind"]), np.load(row["file"])
        same = found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()
        how = "the same bytes"
        if not same and found.shape == wanted.shape:
            how = "differs by up to %%g" %% np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
        elif not same:
            how = "differs in shape: %%s, not %%s" %% (found.shape, wanted.shape)
        differing += not same and side == "observed"
        print("%%s %%s: %%s" %% (side, name, how))
sys.exit(1 if differing else 0)
'''
