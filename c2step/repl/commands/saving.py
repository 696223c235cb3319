"""Commands that write blobs to files."""

import itertools
import os
import re
from typing import Any, Iterable, Optional

from ...blob import STRING
from ...render import quote
from ...sizes import counted
from ..context import Context
from ..lexer import Token
from ..registry import command
from ..types import BlobRef, Candidate, FilePath

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
    if blob.name:
        return _save_one(context, blob, path)
    folder = path or "blobs"
    return "saved %s to %s" % (counted(context.session.save_all(folder), "blob"), quote(folder))


def _save_one(context: Context, ref: BlobRef, path: Optional[str]) -> str:
    session = context.session
    target = path if path and not os.path.isdir(path) else ""
    if not target:
        strings = session.summary(ref.name, ref.version).kind == STRING
        target = _free_file(path or "", str(ref), ".json" if strings else ".npy")
    session.save(ref.name, target, ref.version, ref.index)
    return "saved %s to %s" % (ref, quote(target))


def _free_file(folder: str, label: str, ending: str) -> str:
    """A file that is not there yet, named after a blob as far as that is safe."""
    stem = os.path.join(folder, _UNSAFE.sub("_", label)[:80].strip("._") or "blob")
    names = itertools.chain([stem + ending], ("%s-%d%s" % (stem, number, ending) for number in itertools.count(2)))
    return next(name for name in names if not os.path.exists(name))
