"""Small Caffe2 nets written on the spot, and Caffe2 itself as their oracle: no part of c2step is used to run them."""

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

Op = Tuple[str, Sequence[str], Sequence[str], Dict[str, Any]]
C: Any = workspace.C


def make_net(operators: Sequence[Op], inputs: Sequence[str]) -> Any:
    """A NetDef of (type, inputs, outputs, arguments)."""
    net = caffe2_pb2.NetDef(name="small")
    for kind, reads, writes, arguments in operators:
        net.op.add().CopyFrom(core.CreateOperator(kind, list(reads), list(writes), **arguments))
    net.external_input.extend(inputs)
    net.external_output.extend(dict.fromkeys(name for op in net.op for name in op.output))
    return net


def written(operators: Sequence[Op], inputs: Sequence[str], folder: str) -> str:
    """The net's path."""
    path = os.path.join(str(folder), "predict_net.pb")
    with open(path, "wb") as file:
        file.write(make_net(operators, inputs).SerializeToString())
    return path


def run_prefix(
    operators: Sequence[Op],
    feeds: Dict[str, np.ndarray],
    count: int,
    patches: Sequence[Tuple[Optional[int], str, np.ndarray]] = (),
) -> Dict[str, np.ndarray]:
    """Every tensor after the first `count` operators; a patch is put in right after its operator, None at the start."""
    before = C.current_workspace()
    workspace.SwitchWorkspace("small-nets-oracle", True)
    workspace.ResetWorkspace()
    try:
        for name, array in feeds.items():
            workspace.FeedBlob(name, array)
        _put(patches, None)
        for index, op in enumerate(make_net(operators, list(feeds)).op[:count]):
            workspace.RunOperatorOnce(op)
            _put(patches, index)
        return {name: workspace.FetchBlob(name) for name in workspace.Blobs()}
    finally:
        workspace.ResetWorkspace()
        workspace.SwitchWorkspace(before)


def _put(patches: Sequence[Tuple[Optional[int], str, np.ndarray]], index: Optional[int]) -> None:
    for place, name, array in patches:
        if place == index:
            C.Workspace.current.remove_blob(name)  # its storage may be another blob's too
            workspace.FeedBlob(name, array)


def tensors(session: Any) -> Dict[str, np.ndarray]:
    """Every tensor that a session's workspace holds."""
    names: List[str] = sorted(set(session.model.predict_net.blobs()) | session.history.initial)
    blobs = {name: session.fetch(name).array for name in names}
    return {name: array for name, array in blobs.items() if array is not None}
