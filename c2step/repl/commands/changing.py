"""Commands that change values and operators for this session."""

import os
import re
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

import numpy as np

from ...blob import Blob
from ...compare.comparison import Comparison
from ...compare.trying import Trial, Tried, before_and_after, try_values, unknown_arguments
from ...errors import InputError, UsageError, near
from ...net import Operator
from ...render import blob_label, operator_line, quote, summary_line, table
from ...workspace import Change
from ..arrays import read_value, taken
from ..assignments import ArgumentChange, ArgumentValues, BlobValue, OptionalWhere
from ..context import Context
from ..expressions import digits_meant, evaluate
from ..registry import Result, command
from ..telling import stopped
from ..types import BlobName, FilePath

if TYPE_CHECKING:
    from ...stepper import Session

Candidate = Tuple[List[str], List[Change]]
_FILE = re.compile(r"[\w./~+-]+\.(?:npy|npz|pb)$")


@command()
def patch(context: Context, assignment: BlobValue) -> str:
    """Put a value in place of a blob's, as if the operator that wrote it had written that.

    It stays when that operator runs again, until `unpatch`.  Operators that ran on the old value are marked
    dirty (*) until they have run again; `goto` the first of them and `continue`.

    patch conv1 = golden.npy            a file; of an .npz the array of that name, or its only one
    patch conv1 = reference             its golden value: does the end get well?
    patch conv1 = np.maximum(conv1, 0)  Python over blobs: blob("a b"), golden("conv1") and np are there
    patch conv1[0, :5] = 0              a part of it
    """
    session = context.session
    name = assignment.ref.name
    array, notes = _value(context, assignment)
    before = session.summary(name) if session.history.exists(name) else None
    made = session.patch(name, array, assignment.text, assignment.ref.index)
    if not session.history.exists(name):
        return "\n".join(["%s, when that has run or is skipped" % made, *notes])
    label = blob_label(name, session.version(name))
    lines = ["%s  %s" % (label, summary_line(session.summary(name))), *notes]
    if before is not None and assignment.ref.index is None and before.shape != array.shape:
        lines.append("its shape was %s" % (tuple(before.shape),))
    return "\n".join(lines + _dirty_lines(context))


def _value(context: Context, assignment: BlobValue) -> Tuple[np.ndarray, List[str]]:
    """The array that an assignment stands for, in the dtype that the blob has, and what must be said of it."""
    ref, text = assignment.ref, assignment.text
    if ref.version is not None:
        raise UsageError("%s: a patch takes no version" % ref, "it changes the value that is live")
    there = context.session.history.exists(ref.name)
    now = context.session.fetch(ref.name) if there else None
    current = None if now is None else now.array
    value, notes = _given(context, ref.name, text, now)
    array = np.asarray(value)
    if current is None:
        if ref.index is not None and there:
            raise UsageError("%s holds no array, so it has no part %s" % (blob_label(ref.name), ref.index_text))
        return array, notes
    array = _as_dtype(array, current.dtype, text)
    if ref.index is not None:
        _check_part(current, ref.index, array, str(ref))
        return array, notes
    return np.full(current.shape, array) if array.ndim == 0 and current.ndim else array, notes


def _given(context: Context, name: str, text: str, now: Optional[Blob]) -> Tuple[Any, List[str]]:
    if text == "reference":
        found = context.loaded().value(name).real()
        if found is None:
            raise InputError("the reference holds no array for %s" % blob_label(name))
        return np.asarray(found), []
    path = os.path.expanduser(text.strip("'\""))
    if os.path.exists(path):
        value = read_value(context, path, name)
        if value.array is None:
            raise InputError("%s holds no array for %s" % (quote(path), blob_label(name)))
        return np.asarray(value.array), taken(path, name, value)
    if _FILE.match(path):
        folder = os.path.dirname(path) or "."
        there = os.listdir(folder) if os.path.isdir(folder) else []
        raise InputError("there is no file %s" % quote(path), near(os.path.basename(path), there))
    value = evaluate(context, text, {"x": now.real()} if now is not None and now.array is not None else {})
    return value, digits_meant(context, text)


def _check_part(current: np.ndarray, index: Any, value: Any, label: str) -> None:
    """UsageError where a part of an array cannot take a value."""
    try:
        np.array(current)[index] = value
    except (ValueError, TypeError, IndexError) as error:
        raise UsageError("%s: %s" % (label, error)) from None


def _as_dtype(array: np.ndarray, dtype: Any, text: str) -> np.ndarray:
    """In the blob's dtype, which operators want; UsageError where values of another kind would be lost."""
    words, wanted = array.dtype.kind in "OSU", np.dtype(dtype).kind in "OSU"
    if array.dtype == dtype or words and wanted:
        return array
    same = array.dtype.kind in "biuf" and not wanted
    if same:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype)
            rounded = array.dtype.kind == np.dtype(dtype).kind == "f" and np.array_equal(
                np.isinf(cast), np.isinf(array)
            )
            same = rounded or np.array_equal(cast.astype(array.dtype), array)
    if words != wanted:
        given, held = ("text", dtype) if words else (array.dtype, "text")
        raise UsageError("%s gives %s, and the blob is %s" % (text, given, held))
    if not same:
        raise UsageError("%s gives %s that %s does not hold" % (text, array.dtype, dtype), "convert it: .astype(...)")
    return cast


def _dirty_lines(context: Context) -> List[str]:
    dirty = sorted(context.session.dirty_operators())
    if not dirty:
        return []
    edited = sorted(context.session.changes.edited())
    others = [index for index in dirty if index not in edited]
    lines = []
    if edited:
        lines.append("%s before the edit: dirty (*)" % _ran(context, edited))
    if others:
        lines.append("%s on other values: dirty (*)" % _ran(context, others))
    return lines


def _ran(context: Context, indices: List[int]) -> str:
    first = context.net.operators[indices[0]]
    return "%s ran" % first if len(indices) == 1 else "%d operators (the first is %s) ran" % (len(indices), first)


@command()
def unpatch(context: Context, blob: Optional[BlobName] = None) -> str:
    """Take a patch away, or all: the blob has its own value again, now and when its operator runs again.

    `info patches` lists them.
    """
    session = context.session
    names: List[str] = (
        [blob] if blob is not None else list(dict.fromkeys(patch.name for patch in session.changes.patches))
    )
    gone = [patch for name in names for patch in session.unpatch(name)]
    lines = ["taken away: %s" % patch for patch in gone]
    return "\n".join(lines + _dirty_lines(context)) if gone else patches_text(context)


def patches_text(context: Context) -> str:
    """The patches, one a line."""
    return "\n".join(map(str, context.session.changes.patches)) or "nothing is patched"


@command()
def edit(
    context: Context, where: Optional[OptionalWhere] = None, changes: Optional[List[ArgumentChange]] = None
) -> str:
    """Change an operator for this session: its arguments, inputs, type or engine.

    Without a change it lists what was edited.  WHERE is the operator that failed, else the one that ran last.
    `rerun` runs it again, `write-net` saves the net.

    edit pads=1,1,1,1            an argument of the last operator
    edit conv1 kernel= group=2   takes one argument away and sets another
    edit 7 input:1=w2            another input
    edit 7 type=AveragePool      another type
    """
    session = context.session
    if not changes:
        return edits_text(context)
    op = chosen(context, where)
    names = [item.change[1] for item in changes if item.change[0] == "arg" and item.change[2] is not None]
    notes = unknown_arguments(session, op, names)
    made = session.edit(str(op.index), *(item.change for item in changes))
    lines = [operator_line(made), *_arguments(made), *("note: " + note for note in notes)]
    return "\n".join(lines + _inside_lines(context, made) + _dirty_lines(context))


def _inside_lines(context: Context, op: Operator) -> List[str]:
    """An edit of an operator inside another one does not change that one."""
    inside = context.frames.holding
    if inside is None:
        return []
    return ["this is %s alone, as it was entered; %s itself runs as it is" % (inside.label(op.index), inside.operator)]


def chosen(context: Context, where: Optional[str]) -> Operator:
    """The operator that WHERE names; without one that which failed, else the one that ran last, else the next."""
    session = context.session
    if where is not None:
        return session.operator(where)
    ahead = session.next_operator()
    if ahead is not None and (session.status(ahead.index) in "FD" or not session.steps):
        return ahead
    if not session.steps:
        raise UsageError("no operator has run", "name one")
    return context.net.operators[session.steps[-1].index]


def _arguments(op: Operator) -> List[str]:
    return ["  %s" % argument for argument in op.arguments] + (["  engine=%s" % op.engine] if op.engine else [])


def edits_text(context: Context) -> str:
    """The edited operators, one a line, with what was changed of each."""
    return _edits(context.session) or "nothing was edited"


def _edits(session: "Session") -> str:
    changes = session.changes
    rows = [
        [str(index), session.model.predict_net.operators[index].type, " ".join(_change_text(c) for c in found)]
        for index, found in sorted(changes.edits.items())
    ]
    return "\n".join(table(rows))


def _change_text(change: Any) -> str:
    what, name, value = change
    label = {"arg": name, "input": "input:%s" % name}.get(what, what)
    return "%s=%s" % (label, "" if value is None else ",".join(map(str, value)) if isinstance(value, list) else value)


@command()
def unedit(context: Context, where: Optional[OptionalWhere] = None) -> str:
    """Give an operator back what it was when the model was opened."""
    edits = sorted(context.session.changes.edits)
    op = context.net.operators[edits[0]] if where is None and len(edits) == 1 else chosen(context, where)
    return "\n".join([operator_line(context.session.unedit(str(op.index))), *_dirty_lines(context)])


@command()
def rerun(context: Context, where: Optional[OptionalWhere] = None) -> Result:
    """Run an operator again, as it is now, on the same inputs; the session then stands after it."""
    dirty = sorted(context.session.dirty_operators())
    op = context.net.operators[dirty[0]] if where is None and dirty else chosen(context, where)
    return stopped(context, context.session.rerun(str(op.index)))


@command("diff-edit")
def diff_edit(context: Context, where: Optional[OptionalWhere] = None) -> str:
    """Compare what an edited operator gives with what it gave before the edit, on the inputs of this run."""
    edits = sorted(context.session.changes.edits)
    op = context.net.operators[edits[0]] if where is None and len(edits) == 1 else chosen(context, where)
    was, new, differences = before_and_after(context.session, context.against, op.index, context.tolerances)
    lines = [operator_line(op), *table(_trial_rows(was) + _trial_rows(new))]
    return "\n".join(lines + ["after against before: %s" % _line(found) for found in differences])


def _line(found: Comparison) -> str:
    return "equal" if found.equal else found.line()


def _trial_rows(trial: Trial) -> List[List[str]]:
    if trial.error:
        return [[trial.label, trial.error]]
    rows = []
    for name, blob in trial.outputs.items():
        found = trial.comparisons.get(name)
        versus = "  against the reference: %s" % _line(found) if found else ""
        rows.append([trial.label, quote(name), summary_line(blob.summary()) + versus])
    return rows


@command("write-net")
def write_net(context: Context, path: FilePath) -> str:
    """Save predict_net with its edits: as text where the name ends in .pbtxt, else as .pb.

    Inside an operator it is still predict_net, the outermost net.  Patches are values and no part of a net.
    """
    session = context.frames.outermost
    session.write_net(path)
    edited = _edits(session)
    patches = [
        str(patch) for at in (session, *(i.session for i in context.frames.entered)) for patch in at.changes.patches
    ]
    left = ["no part of it: the patches " + "; ".join(patches)] if patches else []
    return "\n".join(["wrote %s%s" % (quote(path), ", edited:\n%s" % edited if edited else ""), *left])


@command("try")
def try_(context: Context, where: Optional[OptionalWhere] = None, values: Optional[List[ArgumentValues]] = None) -> str:
    """Run an operator with each value of an argument on golden inputs, and rank them by error.

    Needs a reference (`reference SPEC`).  The session stays as it is; `edit` then sets what was found.  Several
    arguments are tried in all combinations.

    try pads=0,1,2                     one number for a list means that number everywhere
    try conv1 pads=[0,0,1,1],[1,1,1,1]
    try Softmax axis=0,1,2,3
    try epsilon=1e-5,1e-3,0
    """
    if not values:
        raise UsageError("try what?", "usage: try [WHERE] NAME=V1,V2,...")
    op = chosen(context, where)
    candidates = _combined(values)
    tried = try_values(context.session, context.loaded(), op.index, [(" ".join(w), c) for w, c in candidates])
    rows = [[trial.label, _trial_text(trial)] for trial in tried.trials]
    return "\n".join(
        [operator_line(op), *table(rows), *("note: " + note for note in tried.notes), _verdict(tried, candidates)]
    )


def _verdict(tried: Tried, candidates: List[Candidate]) -> str:
    """Which values are right, of those that make a difference."""
    right = [trial.label for trial in tried.trials if trial.rank[0] == 0]
    telling = {
        " ".join(words): " ".join(word for word, change in zip(words, changes) if change[:2] not in tried.idle)
        for words, changes in candidates
    }
    if not any(telling.values()):
        return "no value makes a difference; it is %s all the same" % ("right" if right else "wrong")
    return "right: %s" % "; ".join(dict.fromkeys(telling[label] for label in right)) if right else "no value is right"


def _trial_text(trial: Trial) -> str:
    if trial.error:
        return "failed: %s" % trial.error
    worst = trial.worst
    return _line(worst) if worst is not None else "gave no value to compare"


def _combined(values: List[ArgumentValues]) -> List[Candidate]:
    """Every combination: as it is typed, and the changes that it stands for."""
    combined: List[Candidate] = [([], [])]
    for each in values:
        combined = [
            (words + [word], changes + list(added)) for words, changes in combined for word, added in each.changes
        ]
    return combined
