"""What running operators gave, taken into the history and the capture as it comes."""

import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from .blob import TENSOR, BlobSummary
from .capture import read_blob
from .errors import CaptureError
from .history import Figures, History, Kept, Output, Step
from .model import Model
from .net import BlobVersion, Operator
from .recording import Recording
from .unsummarised import Unsummarised, Waiting
from .workspace import Event, LargeEvent, SmallEvent, StepEvent, Workspace

__all__ = ["Intake", "stored_row"]


class Intake:
    """Makes steps of events, keeps and journals what they wrote; `replacing` is put in place of that."""

    def __init__(self, workspace: Workspace, model: Model, recording: Recording) -> None:
        self.workspace = workspace
        self.model = model
        self.recording = recording
        self.history = History()
        self.replacing: Dict[int, Sequence[Tuple[str, Kept]]] = {}
        self.full: Optional[CaptureError] = None  # why not all could be written
        self._unsummarised = Unsummarised()

    def take(self, events: Sequence[Event], iteration: int) -> List[Tuple[Event, Step]]:
        """Events of the workspace as steps, journalled, in the history where they are ok; initial values that they
        overwrote are kept.  Those that count for nothing, since the limit on bytes was reached, are left out."""
        taken: List[Tuple[Event, Step]] = []
        folder = self.recording.directory
        files = self._packed(events)
        for event, figures, file in zip(events, self._waiting(events), files):
            if isinstance(event, SmallEvent):
                assert figures
                step = self._plain_step(event, iteration, figures, file)
            elif isinstance(event, LargeEvent):
                step = self._plain_step(event, iteration, event.summary, event.file)
            else:
                self._keep_before(event.get("before", ()))
                if event["status"] == "full":
                    continue
                step = self._step(event, iteration)
                if event.get("disk"):
                    self._is_full(CaptureError(event["disk"]["message"], event["disk"]["hint"]))
            self.recording.add(step)
            taken.append((event, step))
            if step.status == "ok":
                self.history.add(step, folder)
                if self.replacing:
                    self._replaced(step.index)
        try:
            self.recording.flush_in_time()
        except CaptureError as error:
            self._is_full(error)
        return taken

    def settle(self) -> None:
        """Write what may still wait, before anyone reads it."""
        try:
            self.recording.flush()
        except CaptureError as error:
            self.full = self.full or error

    def _is_full(self, error: CaptureError) -> None:
        """What has run counts all the same, and the run is to stop."""
        self.full = self.full or error
        self.workspace.interrupt()

    def _waiting(self, events: Sequence[Event]) -> List[Optional[Waiting]]:
        """Small tensors, to be summarised when that is asked for, all of one form at once."""
        add = self._unsummarised.add
        return [add(e.dtype, e.shape, e.data) if isinstance(e, SmallEvent) else None for e in events]

    def _packed(self, events: Sequence[Event]) -> List[Optional[str]]:
        """Keep the bytes of small tensors; the names of their files."""
        files: List[Optional[str]] = [None] * len(events)
        try:
            for at, event in enumerate(events):
                if isinstance(event, SmallEvent) and event.pack:
                    files[at] = self.recording.pack(event.dtype, event.shape, event.data)
        except CaptureError as error:
            self._is_full(error)
        return files

    def _plain_step(
        self, event: Union[SmallEvent, LargeEvent], iteration: int, figures: Figures, file: Optional[str]
    ) -> Step:
        op = self.model.predict_net.operators[event.operator]
        name = op.outputs[0]
        output = Output(name, self.history.versions.get(name, 0) + 1, TENSOR, figures, file)
        steps = len(self.history.steps)
        return Step(steps, iteration, op.index, op, "ok", None, self.reads(op), (output,), event.seconds)

    def _keep_before(self, rows: Iterable[Dict[str, Any]]) -> None:
        """Take note of the copies of initial values that were overwritten."""
        for row in rows:
            if self.history.version(row["name"]) == 0 and not self.history.is_kept(row["name"], 0):
                self._keep_row(row, 0)

    def _replaced(self, index: int) -> None:
        """Take note of the values that the workspace has put in place of what an operator wrote."""
        for name, kept in self.replacing.get(index, ()):
            self._fed(name, self.history.version(name) + 1, kept)

    def replacements(self) -> Dict[str, List[Dict[str, Any]]]:
        """What the workspace needs to know to replace what operators write."""
        return {str(index): [stored_row(name, kept) for name, kept in found] for index, found in self.replacing.items()}

    def _step(self, event: StepEvent, iteration: int) -> Step:
        op = self.model.predict_net.operators[event["index"]]
        touched = [row for row in event.get("touched", ()) if row.get("inside") or not self._unchanged(row)]
        return Step(
            len(self.history.steps),
            iteration,
            op.index,
            op,
            event["status"],
            event.get("error"),
            self.reads(op),
            self._outputs(event["outputs"] or ()),
            event.get("seconds", 0.0),
            self._outputs(touched) if touched else (),
            tuple((name, other) for name, other in event.get("shares", ())),
        )

    def reads(self, op: Operator) -> Tuple[BlobVersion, ...]:
        """The versions that an operator would read now."""
        versions = self.history.versions
        named = [BlobVersion(name, versions.get(name, 0)) for name in op.inputs if name]
        if op.unnamed_inputs:
            named += [BlobVersion(n, versions.get(n, 0)) for n in op.unnamed_inputs if self.history.exists(n)]
        return tuple(named)

    def _outputs(self, rows: Iterable[Dict[str, Any]]) -> Tuple[Output, ...]:
        seen: Dict[str, int] = {}
        outputs = []
        for row in rows:
            name, summary = row["name"], row["summary"]
            seen[name] = seen.get(name, self.history.version(name)) + 1
            summary = summary if isinstance(summary, BlobSummary) else BlobSummary.from_json(summary)
            outputs.append(Output(name, seen[name], row["kind"], summary, row["file"]))
        return tuple(outputs)

    def _keep_row(self, row: Dict[str, Any], version: int) -> None:
        if row["file"]:
            path = os.path.join(self.recording.directory, row["file"])
            self.history.keep(row["name"], version, Kept(path, row["kind"], BlobSummary.from_json(row["summary"])))

    def _unchanged(self, row: Dict[str, Any]) -> bool:
        """Whether a blob that shares storage with an output still has the value of its live version."""
        name = row["name"]
        live = BlobVersion(name, self.history.version(name))
        kept = self.history.kept.get(live)
        if row["new"] and kept is None:
            summary = BlobSummary.from_json(row["summary"])
            if (self.history.summary(live) or summary) == summary:
                self._keep_row(row, live.version)
                return True
        if kept is None or not row["file"]:
            known = self.history.summary(live)
            return known is not None and known == BlobSummary.from_json(row["summary"])
        self.settle()  # the older value may be of the same batch of events
        old = read_blob(kept.file, name, kept.kind).array
        new = read_blob(os.path.join(self.recording.directory, row["file"]), name, row["kind"]).array
        assert old is not None and new is not None
        return old.dtype == new.dtype and old.shape == new.shape and old.tobytes() == new.tobytes()

    def _fed(self, name: str, version: int, kept: Kept, at: Optional[int] = None) -> None:
        self.history.keep(name, version, kept)
        self.history.add_feed(name, version, at)
        row = {"name": name, "version": version, "file": os.path.basename(kept.file), "holds": kept.kind}
        if kept.summary.scale is not None:
            row.update(scale=kept.summary.scale, zero_point=kept.summary.zero_point)
        self.recording.event("feed", **row)


def stored_row(name: str, kept: Kept) -> Dict[str, Any]:
    """A kept version as workspaces take values from files."""
    scale, zero_point = kept.summary.scale, kept.summary.zero_point
    return {"name": name, "kind": kept.kind, "file": kept.file, "scale": scale, "zero_point": zero_point}
