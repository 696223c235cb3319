"""Name the first wrong operator: where a difference starts, and what only passes it on.

c2step blame model.onnx --input all.npz --against onnxruntime
c2step blame model.onnx --input all.npz --against golden.npz --csv blame.csv
c2step blame model.onnx --input all.npz --against torch:model.py:make
c2step blame model.onnx --input all.npz --runtime 1.0.1 --against backend:onnx_caffe2
c2step blame --init-net i.pb --predict-net p.pb --input all.npz --against python:/old/bin/python
"""

import argparse
import csv
import json
import os
import shutil
from typing import Optional

from ..compare.about import ALONE, GOLDEN, about, keep_blame, keep_golden
from ..compare.blame import Blame, blame
from ..compare.loading import engine_ahead
from ..compare.truth import weigh
from ..launch import default_keep
from ..leftovers import scratch_folder
from ..references import Engine
from ..render import blame_lines
from ..stepper import Session
from .against import add_tolerances, begin_reference_for, said, tolerances_of
from .options import add_session, opened, progress_of, say, warn_unfed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step blame`."""
    add_session(parser)
    parser.set_defaults(yielding=True)  # the reference is made, and values are compared, beside it
    add_tolerances(parser)
    group = parser.add_argument_group("blame")
    forms = (
        "onnxruntime, torch:FILE.py:factory, openvino[:FILE], keras:FILE or keras:FILE.py:factory, keras-nchw:..., "
        "python:PATH or docker:IMAGE (the same nets on another Caffe2), backend:onnx_caffe2 or backend:caffe2 "
        "(the same model by the other importer), a capture, an archive, an .npz or a folder of .npy"
    )
    group.add_argument("--against", required=True, metavar="REFERENCE", help=forms)
    group.add_argument("--names", metavar="FILE.json", help="the blob that each file of a folder or .npz holds")
    group.add_argument("--engine-runtime", metavar="python:PATH", help="the interpreter that makes the reference")
    group.add_argument("--continue-from-reference", action="store_true",
                       help="go on past an operator that fails, with golden values")  # fmt: skip
    group.add_argument("--truth", action="store_true", help="ask float64 which side is off, for each wrong operator")
    group.add_argument("--prove", action="store_true", help="replace each ORIGIN's output and say what gets well")
    group.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    group.add_argument("--csv", metavar="FILE", help="write the table as CSV too")
    group.add_argument(
        "--keep", metavar="DIR", help="keep the run, the golden values and the answer here, for a report"
    )


def run(options: argparse.Namespace) -> int:
    """Run, judge, and end with the verdict's status."""
    folder = scratch_folder("reference")
    spare = engine_ahead(options.against, options.runtime, options.engine_runtime)
    try:
        with opened(options, default_keep(options.keep)) as session:
            warn_unfed(session)
            found = _blamed(session, options, folder, spare)
            _print(found, options)
            return int(found.verdict.status)
    finally:
        if spare is not None:
            spare.kill()  # it may be loading still, for nothing
            spare.close()
        shutil.rmtree(folder, ignore_errors=True)


def _blamed(session: Session, options: argparse.Namespace, folder: str, spare: Optional[Engine]) -> Blame:
    rules = tolerances_of(session, options)
    progress = progress_of(session)
    kept = default_keep(os.path.join(session.capture_directory, ALONE)) if options.keep else None
    making = begin_reference_for(session, options, folder, spare)
    with progress.over(session.model.predict_net):
        found = blame(session, making, rules, options.continue_from_reference, progress.show, kept)
        reference = making.result()
    if not options.json:
        said(reference)
    if options.truth:
        weigh(session, reference, found)
    if options.prove:
        from ..compare.proof import prove

        prove(session, reference, found, rules)
    if options.json or options.keep:
        found.about = about(session, reference, options.keep or "", options.against)
    if options.keep:
        keep_golden(session.model.predict_net, reference, os.path.join(options.keep, GOLDEN), options.against)
        keep_blame(found, options.keep)
    return found


def _print(found: Blame, options: argparse.Namespace) -> None:
    if options.csv:
        _write_csv(found, options.csv)
    if options.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print("\n".join(blame_lines(found.to_json())))


def _write_csv(found: Blame, path: str) -> None:
    fields = ["index", "type", "node", "outputs", "label", "run", "run_max_abs", "alone", "alone_max_abs", "reason"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for row in found.to_json()["operators"]:
            sides = {name: row[name]["comparison"] or {} for name in ("run", "alone")}
            writer.writerow({
                "index": row["index"], "type": row["type"], "node": row["node"], "outputs": " ".join(row["outputs"]),
                "label": row["label"], "reason": row["reason"],
                "run": sides["run"].get("verdict", row["run"]["status"]), "run_max_abs": sides["run"].get("max_abs"),
                "alone": sides["alone"].get("verdict", row["alone"]["status"]),
                "alone_max_abs": sides["alone"].get("max_abs"),
            })  # fmt: skip
    say("wrote %s" % path)
