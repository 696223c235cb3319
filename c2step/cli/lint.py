"""List what Caffe2 will refuse, fail at, die of or get wrong in a model, before anything runs.

  c2step lint model.onnx
  c2step lint model.onnx --json

Each finding has a code, the ONNX node, the effect (refuse: at conversion, fail: at run, wrong: silently,
die: the process, note), and the repair that --import repaired makes, where there is one; with --import
repaired, what is left after it.
The exit status is 1 where anything but notes was found.
"""

import argparse
import json
import os
from typing import Any, Dict, List

from ..errors import ExitStatus
from ..importer.inputs import parse_dims
from ..launch import unpack_folder
from ..render import quote, table
from ..workspace.process import ProcessWorkspace
from ..workspace.runtime import find_runtime
from .options import add_model, show_output

__all__ = ["add_arguments", "run"]

_FIELDS = ("code", "node", "op_type", "effect", "repair", "message")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step lint`."""
    add_model(parser)
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
        paths = {key: getattr(options, key) for key in ("model", "init_net", "predict_net")}
        spec: Dict[str, Any] = {key: os.path.abspath(path) for key, path in paths.items() if path}
        spec.update(unpack_folder(workspace, options.model))
        findings = workspace.lint(dict(spec, dims=parse_dims(options.dim)))
        repaired = options.importing == "repaired"
        return [finding for finding in findings if not (repaired and finding["repair"])]
    finally:
        workspace.close()
