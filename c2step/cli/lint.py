"""List what Caffe2 will refuse, fail at, die of or get wrong in a model, before anything runs.

  c2step lint model.onnx
  c2step lint model.onnx --json
  c2step lint model.onnx --runtime 1.2.0

Each finding has a code, the ONNX node, the effect (refuse: at conversion, fail: at run, wrong: silently,
die: the process, note), and the repair that --import repaired makes, where there is one; with --import
repaired, what is left after it.
Inputs, where given, say what the model leaves open: the sizes of dimensions, axes that it is fed.
With --runtime, also the operators that this version of Caffe2 does not have, and arguments that its schemas
do not list, in what the model becomes there.
The exit status is 1 where anything but notes was found.
"""

import argparse
import json
from typing import Any, Dict, List

from ..errors import ExitStatus, ModelError, WorkerDied
from ..launch import unpack_folder
from ..render import quote, table
from ..workspace.process import ProcessWorkspace
from ..workspace.runtime import find_runtime
from .options import add_inputs, add_model, fed_spec_of, say, show_output, spec_of

__all__ = ["add_arguments", "run"]

_FIELDS = ("code", "node", "op_type", "effect", "repair", "message")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step lint`."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument("--json", action="store_true", help="a list of objects with %s" % ", ".join(_FIELDS))


def run(options: argparse.Namespace) -> int:
    """Look and list."""
    findings = _findings(options)
    if options.json:
        print(json.dumps([{key: finding[key] for key in _FIELDS} for finding in findings], indent=1))
    else:
        rows = [
            [f["effect"], f["code"], f["op_type"] or "-", quote(f["node"]) if f["node"] else "-", f["message"]]
            for f in findings
        ]
        print("\n".join(table(rows)) if rows else "nothing found")
        repairs = [(quote(finding["node"]), finding["repair"]) for finding in findings if finding["repair"]]
        for repair in dict.fromkeys(repairs):
            print("repair %s: %s" % repair)
    return ExitStatus.DIFFERS if any(f["effect"] != "note" for f in findings) else ExitStatus.OK


def _findings(options: argparse.Namespace) -> List[Dict[str, Any]]:
    workspace = ProcessWorkspace(find_runtime(options.runtime), show_output, options.timeout)
    try:
        spec = dict(spec_of(options), **unpack_folder(workspace, options.model))
        spec.update(fed_spec_of(workspace, spec, options))
        findings = workspace.lint(spec)
        repaired = options.importing == "repaired"
        if options.runtime:
            findings += _of_version(workspace, spec, findings)
        return [finding for finding in findings if not (repaired and finding["repair"])]
    finally:
        workspace.close()


def _of_version(workspace: ProcessWorkspace, spec: Dict[str, Any], known: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """What this version lacks and is not said yet; a model that it cannot convert has been told of above."""
    try:
        found = workspace.lint(dict(spec, operators=True))
    except (ModelError, WorkerDied) as error:
        say("operators and arguments were not looked at: %s" % error.message)
        return []
    said = {(finding["code"], finding["node"]) for finding in known}
    return [finding for finding in found if (finding["code"], finding["node"]) not in said]
