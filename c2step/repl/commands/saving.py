"""Commands that write blobs to files."""

import itertools
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ...blob import STRING
from ...capture import CaptureWriter, file_name, write_blob
from ...errors import UsageError
from ...net import BlobVersion, Operator
from ...render import blob_label, quote
from ..context import Context
from ..lexer import Token
from ..registry import command
from ..types import BlobRef, Candidate, FilePath
from .blobs import part

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Saved(BlobRef):
    """A blob, or all of them."""

    label = "BLOB|all"
    about = "a blob, perhaps with version and slice, or all for every blob that is there"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        if token.text == "all" and not token.quoted:
            return cls("")
        return super().parse(token, context)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return [Candidate("all", "all"), *super().candidates(typed, context)]


@command()
def save(context: Context, blob: Saved, path: Optional[FilePath] = None) -> str:
    """Save a blob as a .npy file, or all blobs into a folder.

    save conv1               conv1.npy in the working directory, conv1-2.npy if that is there already
    save conv1@2 first.npy   what its second write left
    save conv1[0] part.npy   a part of it
    save all out/            every blob that is there, as a capture: .npy files and a journal of names
    """
    return _save_all(context, path or "blobs") if not blob.name else _save_one(context, blob, path)


def _save_one(context: Context, ref: BlobRef, path: Optional[str]) -> str:
    blob = part(context.session.fetch(ref.name, ref.version), ref)
    if blob.array is None:
        raise UsageError("%s has no value to save: %s" % (blob_label(ref.name, ref.version), blob.text or blob.kind))
    if path and not os.path.isdir(path):
        target = path
    else:
        target = _free_file(path or "", str(ref), ".json" if blob.kind == STRING else ".npy")
    write_blob(target, blob)
    return "saved %s to %s" % (ref, quote(target))


def _free_file(folder: str, label: str, ending: str) -> str:
    """A file that is not there yet, named after a blob as far as that is safe."""
    stem = os.path.join(folder, _UNSAFE.sub("_", label)[:80].strip("._") or "blob")
    names = itertools.chain([stem + ending], ("%s-%d%s" % (stem, number, ending) for number in itertools.count(2)))
    return next(name for name in names if not os.path.exists(name))


def _save_all(context: Context, folder: str) -> str:
    session = context.session
    writer = CaptureWriter(folder)
    writer.begin(dict(session.header(), kind="snapshot", position=session.position))
    found = session.blobs()
    makers = {BlobVersion(out.name, out.version): step.operator for step in session.steps for out in step.outputs}
    for number, (name, version, _) in enumerate(found):
        writer.add(_row(context, writer, number, name, version, makers))
    writer.close()
    return "saved %d blobs to %s" % (len(found), quote(folder))


def _row(
    context: Context,
    writer: CaptureWriter,
    number: int,
    name: str,
    version: int,
    makers: Mapping[BlobVersion, Operator],
) -> Dict[str, Any]:
    """A journal row of the operator that made this version of a blob, `index` null when none did."""
    blob = context.session.fetch(name)
    summary = blob.summary()
    file = None
    if blob.array is not None:
        file = file_name(number, "0", name, blob.kind)
        write_blob(os.path.join(writer.path, file), blob)
    op = makers.get(BlobVersion(name, version))
    outputs: List[Dict[str, Any]] = [
        {
            "name": name,
            "version": version,
            "kind": blob.kind,
            "dtype": summary.dtype,
            "shape": list(summary.shape),
            "file": file,
            "summary": summary.to_json(),
        }
    ]
    return {
        "index": op.index if op else None,
        "type": op.type if op else "",
        "name": op.name if op else "",
        "node": op.node.label if op and op.node else None,
        "status": "ok",
        "error": None,
        "inputs": [],
        "outputs": outputs,
    }
