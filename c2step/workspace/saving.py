"""Write what watched operators read and write into a capture; the run goes on whatever happens to the disk."""

import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..blob import Blob, summarize
from ..capture import CaptureWriter, file_name, write_blob
from ..errors import CaptureError
from .instrument import Site, fits

__all__ = ["Saver"]

Read = Callable[[str], Blob]
Row = Dict[str, Any]


class Saver:
    """Rows and files of watched operators; without a directory it does nothing."""

    def __init__(
        self, directory: Optional[str], patterns: Sequence[str], max_bytes: Optional[int], note: Callable[[str], None]
    ) -> None:
        self.directory = None if directory is None else os.path.abspath(directory)
        self.count = 0
        self._patterns = patterns
        self._left = max_bytes
        self._note = note
        self._writer: Optional[CaptureWriter] = None
        self._pending: List[Tuple[int, Site, Row]] = []  # with the thread
        self._held: Optional[List[Row]] = None
        self._versions: Dict[str, int] = {}
        self._tick = 0

    def begin(self) -> None:
        """Make the capture; CaptureError where the folder is of another kind."""
        if self.directory is not None:
            writer = CaptureWriter(self.directory)
            writer.begin(_header(self._patterns))
            self._writer = writer

    def end(self) -> None:
        """Close the journal."""
        writer, self._writer = self._writer, None
        if writer:
            writer.close()

    # -- operators ----------------------------------------------------------------------------

    def before(self, site: Site, read: Read) -> None:
        """Save the inputs, and say in the journal that the operator begins, for the case that it does not come back."""
        if not self._wanted(site):
            return
        row: Row = {
            "index": site.index,
            "type": site.type,
            "name": site.name,
            "node": None,
            "net": site.net,
            "status": "ok",
            "error": None,
            "tick": self._tick,
            "outputs": [],
        }
        self._tick += 1
        row["inputs"] = self._save(row["tick"], "in", site.inputs, read)
        self._pending.append((threading.get_ident(), site, row))
        if self._held is None:
            self._add({"event": "begins", **{key: row[key] for key in ("net", "index", "type", "tick")}})

    def after(self, site: Site, read: Read) -> None:
        """Save the outputs, and write the row."""
        same = [n for n, entry in enumerate(self._pending) if entry[1] == site]
        if not same:
            return
        here = [n for n in same if self._pending[n][0] == threading.get_ident()]  # else a pool's other thread
        row = self._pending.pop((here or same)[-1])[2]
        for name in site.outputs:
            self._versions[name] = self._versions.get(name, 0) + 1
        row["outputs"] = self._save(row["tick"], "out", site.outputs, read)
        self._finish(row)

    def failed(self, error: str, ours: Callable[[int], bool]) -> None:
        """The operators have failed that had begun in threads that are `ours`."""
        failed = [entry for entry in self._pending if ours(entry[0])]
        self._pending = [entry for entry in self._pending if not ours(entry[0])]
        for _, _, row in failed:
            self._finish(dict(row, status="failed", error=error.split("\n")[0][:2000]))

    def _wanted(self, site: Site) -> bool:
        return self._writer is not None and fits(site.type, self._patterns)

    def _finish(self, row: Row) -> None:
        if self._held is None:
            self._add(row)
        else:
            self._held.append(row)

    # -- writing ------------------------------------------------------------------------------

    def hold(self) -> None:
        """Keep rows back until `release` says whether they are true."""
        self._held = []

    def release(self, keep: bool) -> None:
        """Write the rows that were held back, or take their files away."""
        rows, self._held = self._held or [], None
        self._pending = []
        for row in rows:
            if keep:
                self._add(row)
            else:
                self._discard(row)

    def _discard(self, row: Row) -> None:
        for entry in row["inputs"] + row["outputs"]:
            if entry["file"]:
                os.remove(os.path.join(self.directory or "", entry["file"]))

    def _add(self, row: Row) -> None:
        if self._writer is None:
            return
        try:
            self._writer.add(row)
        except CaptureError as error:
            self._give_up(error)
            return
        self.count += "event" not in row

    def _give_up(self, error: CaptureError) -> None:
        self._note("nothing more is saved: %s" % error.message)
        self.end()

    def _save(self, tick: int, side: str, names: Sequence[str], read: Read) -> List[Row]:
        return [
            self._save_one(file_name(tick, "%s%d" % (side, slot), name), read(name)) for slot, name in enumerate(names)
        ]

    def _save_one(self, file: str, blob: Blob) -> Row:
        summary = summarize(blob)
        row: Row = {
            "name": blob.name,
            "version": self._versions.get(blob.name, 0),
            "kind": blob.kind,
            "dtype": summary.dtype,
            "shape": list(summary.shape),
            "file": None,
            "summary": summary.to_json(),
        }
        if blob.array is None or self._writer is None or not self._room(blob.array):
            return row
        if summary.dtype == "string":
            file = os.path.splitext(file)[0] + ".json"
        try:
            write_blob(os.path.join(self.directory or "", file), blob)
            row["file"] = file
        except CaptureError as error:
            self._give_up(error)
        return row

    def _room(self, array: np.ndarray) -> bool:
        if self._left is None:
            return True
        if array.nbytes > self._left:
            self._note("max_bytes is reached: from here on only summaries are saved")
            self._left = 0
            return False
        self._left -= array.nbytes
        return True


def _header(patterns: Sequence[str]) -> Dict[str, Any]:
    from .. import __version__

    versions = {"python": "%d.%d.%d" % sys.version_info[:3], "numpy": np.__version__}
    torch = sys.modules.get("torch")
    if torch is not None:
        versions["torch"] = str(torch.__version__)
    return {
        "kind": "wrap",
        "c2step": __version__,
        "wrapped": list(patterns),
        "script": sys.argv[:1],
        "versions": versions,
    }
