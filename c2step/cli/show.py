"""List a net's operators, or a capture's blobs, one line each, whole names, made for grep.

c2step show model.onnx
c2step show predict_net.pb --json
c2step show out/
"""

import argparse
import json
import os
import sys
from typing import Any, Dict, List

from ..capture import HEADER, Capture, StoredBlob
from ..errors import ExitStatus
from ..export.tables import rows as rows_of
from ..export.tables import write_csv
from ..importer.files import sniff
from ..launch import unpack_folder
from ..net import Net, Operator
from ..render import blob_label, quote, summary_line, table
from ..workspace.process import ProcessWorkspace
from ..workspace.runtime import find_runtime
from .options import add_model, say, show_output, spec_of

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step show`."""
    add_model(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON instead of a table")
    form.add_argument("--csv", action="store_true", help="CSV instead of a table")


def run(options: argparse.Namespace) -> int:
    """Tell a capture from a model by its content, and list it."""
    path = options.model
    if path and os.path.exists(os.path.join(path, HEADER)):
        _show_capture(Capture(path), options)
    else:
        _show_nets(_nets(options), options)
    return ExitStatus.OK


def _show_capture(capture: Capture, options: argparse.Namespace) -> None:
    if options.csv:
        write_csv(rows_of(capture), sys.stdout)
        return
    if options.json:
        print(json.dumps({"capture": capture.header, "operators": capture.rows}, indent=1))
        return
    rows = [_blob_row(blob) for blob in capture.blobs()]
    print("\n".join(table(rows)) if rows else "no blobs")
    for row in capture.rows:
        if row.get("status") != "ok":
            print("operator %s %s %s: %s" % (row.get("index"), row["type"], row.get("status"), row.get("error")))


def _blob_row(blob: StoredBlob) -> List[str]:
    return [
        "-" if blob.index is None else str(blob.index),
        blob.type,
        blob_label(blob.name, blob.version),
        summary_line(blob.summary),
        blob.file or "-",
    ]


def _nets(options: argparse.Namespace) -> Dict[str, Net]:
    workspace = ProcessWorkspace(find_runtime(options.runtime), show_output)
    try:
        path = options.model
        if path and os.path.isfile(path) and sniff(path) in ("net", "text net"):
            return {os.path.basename(path): Net.from_json(workspace.read_net(path))}
        found = workspace.open(dict(spec_of(options), partial=True, **unpack_folder(workspace, path)))
        for note in found["notes"]:
            say("note: %s" % note)
        for refused in found["refused"]:
            say("refused: %s %s: %s" % (refused["op_type"], refused["label"], refused["reason"]))
        nets = {"init_net": Net.from_json(found["init_net"]), "predict_net": Net.from_json(found["predict_net"])}
        return {name: net for name, net in nets.items() if len(net)}
    finally:
        workspace.close()


def _show_nets(nets: Dict[str, Net], options: argparse.Namespace) -> None:
    if options.csv:
        write_csv([dict({"net": name}, **row) for name, net in nets.items() for row in rows_of(net)], sys.stdout)
        return
    if options.json:
        print(json.dumps({name: net.to_json() for name, net in nets.items()}, indent=1))
        return
    rows = [[name] + _operator_row(op) for name, net in nets.items() for op in net.operators]
    print("\n".join(table(rows)))


def _operator_row(op: Operator) -> List[str]:
    def names(blobs: Any) -> str:
        return ",".join(map(quote, blobs)) or "-"

    arguments = " ".join(str(arg) for arg in op.arguments)
    return [
        str(op.index),
        op.type,
        names(op.inputs),
        names(op.outputs),
        quote(op.node.label) if op.node else "-",
        arguments.replace("\n", "\\n"),
    ]
