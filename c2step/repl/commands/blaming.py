"""Commands about golden values: load them, and name the first wrong operator."""

from typing import List, Optional

from ...compare.against import Against
from ...compare.blame import blame as judge
from ...compare.loading import from_the_start, load_against
from ...compare.proof import prove as replace_each
from ...errors import ExitStatus
from ...render import blame_lines, next_line, quote
from ...sizes import counted
from ..context import Context
from ..registry import Result, command
from ..types import FilePath, ReferenceSpec
from .comparing import STATUSES


@command()
def reference(context: Context, spec: Optional[ReferenceSpec] = None, *, names: Optional[FilePath] = None) -> str:
    """Load golden values; every stop then compares what was written with them.

    Without SPEC it says what is loaded.

    reference onnxruntime               every inner value of the ONNX model
    reference golden/                   a capture, an .npz or a folder of .npy files
    reference torch:model.py:make       module outputs of PyTorch
    reference python:/old/bin/python    the same nets on another Caffe2
    reference off                       forget it
    """
    if spec == "off":
        context.load(None)
        return "no reference is loaded"
    if spec is not None:
        folder = context.scratch("reference")
        context.load(load_against(context.session, spec, folder, names, tolerances=context.tolerances))
    against = context.loaded()
    return "\n".join(_told(against) + ["reference: %s" % note for note in against.reference.notes])


def _told(against: Against) -> List[str]:
    total = len(against.golden)
    return ["%s: %s, %d of them for outputs of operators" % (
        quote(against.label), counted(len(against.reference.names()), "value"), total)]  # fmt: skip


@command()
def blame(context: Context, *, continue_from_reference: bool = False, prove: bool = False) -> Result:
    """Run the net twice, as it is and on golden inputs, and name the operators that are wrong.

    The session then stands at the start.  Edits count; patches and breakpoints are left out meanwhile.
    --continue-from-reference goes on past an operator that fails, --prove replaces each wrong output by the
    golden one and says what gets well.
    """
    session = context.session
    against = context.loaded()
    with from_the_start(session) as left_out:
        found = judge(session, against.reference, against.tolerances, continue_from_reference)
        if prove:
            replace_each(session, against.reference, found, against.tolerances)
    lines = left_out + blame_lines(found.to_json()) + [next_line(context.net, session.position)]
    return Result("\n".join(lines), status=STATUSES[found.verdict] or ExitStatus.OK)
