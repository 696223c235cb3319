"""Every model that is at hand run on two runtimes, and their captures compared bit for bit."""

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union
from unittest import mock

import c2step
import serialized_operators
from c2step.capture import Capture


class Model(NamedTuple):
    """What `c2step.dump` is given, and the name that it goes by here."""

    name: str
    files: Dict[str, str]
    inputs: Any


class Verdict(NamedTuple):
    """How much of two runs was compared, and where they part; `refused` is what both said instead of running."""

    operators: int
    blobs: int
    bytes: int
    differences: List[str]
    refused: str = ""


def models_of(folder: str) -> Iterator[Model]:
    """The models of a folder with one sub-folder for each, as the shared material and the samples have them."""
    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        if not os.path.isdir(place):
            continue
        for files, inputs in (
            ({"model": "model.onnx"}, "input.npz"),
            ({"init_net": "init_net.pb", "predict_net": "predict_net.pb"}, "input.npz"),
            ({"init_net": "train_init_net.pb", "predict_net": "train_net.pb"}, "train_batch.npz"),
        ):
            paths = {role: os.path.join(place, file) for role, file in files.items()}
            if all(os.path.exists(path) for path in list(paths.values()) + [os.path.join(place, inputs)]):
                yield Model("%s/%s" % (name, list(files.values())[-1]), paths, [os.path.join(place, inputs)])


def serialized(folder: str) -> Optional[Model]:
    """The net of Caffe2's serialized operator tests, written into the folder; the oldest wheels have none."""
    if not os.path.isdir(serialized_operators.folder()):
        return None
    recorded = serialized_operators.read_all(serialized_operators.folder())
    path = os.path.join(folder, "predict_net.pb")
    with open(path, "wb") as file:
        file.write(serialized_operators.net_of(recorded))
    return Model("serialized operator tests", {"predict_net": path}, serialized_operators.inputs_of(recorded))


def compare(model: Model, runtimes: Tuple[str, str], folder: str) -> Verdict:
    """Run the model on both runtimes, to its end or to the operator that fails, and compare all that they wrote.

    One thread each: the last bit of a matrix product depends on how many threads share it, and MKL may take fewer than
    it is offered.
    """
    runs = [_run(model, runtime, os.path.join(folder, str(side))) for side, runtime in enumerate(runtimes)]
    if all(isinstance(run, Capture) for run in runs):
        return _verdict(*runs)
    said = ["%s" % run if isinstance(run, str) else "it runs" for run in runs]
    return Verdict(0, 0, 0, [] if said[0] == said[1] else ["%s, and %s" % tuple(said)], said[0])


def _run(model: Model, runtime: str, folder: str) -> Union[Capture, str]:
    """The capture of one run, or why there is none."""
    nets = {role: path for role, path in model.files.items() if role != "model"}
    try:
        with mock.patch.dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"):
            c2step.dump(model.files.get("model"), model.inputs, folder, runtime=runtime, **nets)
    except c2step.C2StepError as error:
        return str(error).replace(runtime, "the runtime")
    return Capture(folder)


def _verdict(left: Capture, right: Capture) -> Verdict:
    found, blobs, size = [], 0, 0
    if len(left.rows) != len(right.rows):
        found.append("%d operators ran, and %d" % (len(left.rows), len(right.rows)))
    for mine, theirs in zip(left.rows, right.rows):
        where = "operator %s %s" % (mine["index"], mine["type"])
        found += ["%s: %s %r, and %r" % (where, key, mine.get(key), theirs.get(key))
                  for key in ("index", "type", "status", "error") if mine.get(key) != theirs.get(key)]  # fmt: skip
        if len(mine["outputs"]) != len(theirs["outputs"]):
            found.append("%s: %d outputs, and %d" % (where, len(mine["outputs"]), len(theirs["outputs"])))
        for out, other in zip(mine["outputs"], theirs["outputs"]):
            blobs += 1
            one, two = (_value(capture, row) for capture, row in ((left, out), (right, other)))
            size += len(one[-1])
            if one != two:
                found.append("%s: blob %s" % (where, out["name"]))
    return Verdict(len(left.rows), blobs, size, found)


def _value(capture: Capture, row: Dict[str, Any]) -> Tuple[Any, ...]:
    """Name, version, kind, and the bytes of the file with its dtype and shape; of a blob that is no tensor no bytes."""
    stored = b""
    if row.get("file"):
        with open(os.path.join(capture.path, row["file"]), "rb") as file:
            stored = file.read()
    return row["name"], row["version"], row["kind"], stored
