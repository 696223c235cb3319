"""What a blame is about, so that a report can be made of it later: model, versions, net, values that were kept.

With a directory to keep things in, `DIR` is the run's capture, `DIR/golden` holds the golden values under
the names and versions of the net's blobs, `DIR/alone` is the capture of the operators on golden inputs, and
`DIR/blame.json` is what `c2step blame --json` prints.
"""

import contextlib
import json
import os
from typing import Any, Dict, List

from ..blob import Blob
from ..capture import CaptureWriter, file_name, write_blob
from ..errors import C2StepError
from ..net import Net
from ..references import Reference
from ..stepper import Session
from .blame import Blame
from .golden import Golden

__all__ = ["ALONE", "BLAME", "GOLDEN", "about", "keep_blame", "keep_golden"]

GOLDEN, ALONE, BLAME = "golden", "alone", "blame.json"


def about(session: Session, reference: Reference, kept: str = "", spec: str = "") -> Dict[str, Any]:
    """The header, both sides' versions, the net with each operator's definition, lint findings, and what was kept.

    `spec` names the reference as it was asked for: one that is made lies in a folder that goes away.
    """
    net = session.model.predict_net
    header = session.header()
    return {
        "header": header,
        "reference": {"source": spec or reference.source, "meta": _small(reference.meta), "notes": reference.notes},
        "net": header.pop("net"),
        "definitions": _definitions(session, net),
        "findings": list(session.model.findings),
        "kept": os.path.abspath(kept) if kept else None,
    }


def _small(meta: Dict[str, Any]) -> Dict[str, Any]:
    return {
        key: meta[key]
        for key in ("kind", "engine", "model", "sha256", "opset", "versions", "preprocessing")
        if key in meta
    }


def _definitions(session: Session, net: Net) -> List[str]:
    """Each operator as OperatorDef text with its ONNX node; empty where the worker cannot say."""
    texts = []
    for op in net.operators:
        text = ""
        with contextlib.suppress(C2StepError):
            text = session.describe(op.index)
        texts.append(text)
    return texts


def keep_golden(net: Net, reference: Reference, directory: str, spec: str = "") -> None:
    """Write the golden values as a capture, under the names and versions of the blobs that they belong to."""
    golden = Golden(net, reference)
    writer = CaptureWriter(directory)
    writer.begin(dict(_small(reference.meta), kind="golden", source=spec or reference.source, notes=reference.notes))
    try:
        for op, (_, writes) in zip(net.operators, net.ssa()):
            outputs = []
            for slot, (name, version) in enumerate(writes):
                blob = golden.blob((op.index, slot))
                if blob is not None and blob.array is not None:
                    outputs.append(_stored(writer.path, blob, op.index, slot, name, version))
            writer.add({"index": op.index, "type": op.type, "name": op.name, "node": op.node.label if op.node else None,
                        "status": "ok", "error": None, "inputs": [], "outputs": outputs})  # fmt: skip
    finally:
        writer.close()


def _stored(folder: str, blob: Blob, index: int, slot: int, name: str, version: int) -> Dict[str, Any]:
    file = file_name(index, "g%d" % slot, name, blob.kind)
    write_blob(os.path.join(folder, file), blob)
    summary = blob.summary()
    return {"name": name, "version": version, "kind": blob.kind, "dtype": summary.dtype, "shape": list(summary.shape),
            "file": file, "slot": slot, "summary": summary.to_json()}  # fmt: skip


def keep_blame(found: Blame, directory: str) -> None:
    """Write the answer beside the captures."""
    with open(os.path.join(directory, BLAME), "w", encoding="utf-8") as file:
        json.dump(found.to_json(), file, indent=1)
        file.write("\n")
