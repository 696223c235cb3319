"""Entering an operator that has nets inside: what the front needs to step them.  Worker side only."""

import os
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

from ..blob import STRING, TENSOR, Blob
from ..capture import file_name, write_blob
from ..errors import UsageError
from ..importer import netdef
from ..importer.inner import inner_nets
from . import reader
from .unrolling import Runner, unroll

__all__ = ["describe_inside", "write_inside"]

C: Any = workspace.C


def describe_inside(op: Any) -> List[Dict[str, Any]]:
    """The nets inside an operator, as JSON."""
    return [{"argument": name, "net": netdef.to_net(net).to_json()} for name, net in inner_nets(op)]


def write_inside(op: Any, directory: str, switched: Callable[[str], Any]) -> Dict[str, Any]:
    """Write the plain net of what an operator does inside, and the values it runs on, into a directory.

    `switched` makes a workspace of that name the current one; the one that holds the values is current.
    """
    runner = _Scratch(switched)
    try:
        made = unroll(op, reader.read, runner)
    except RuntimeError as error:
        raise UsageError("it cannot be entered: its nets do not run (%s)" % str(error).split("\n")[0]) from error
    finally:
        runner.close()
    made.net.external_output.extend(dict.fromkeys(made.results.values()))
    path = os.path.join(directory, "predict_net.pb")
    with open(path, "wb") as file:
        file.write(made.net.SerializeToString())
    values = []
    for number, (name, array) in enumerate(made.values.items()):
        kind = STRING if array.dtype.kind in "OSU" else TENSOR
        values.append(
            {"name": name, "kind": kind, "file": os.path.join(directory, file_name(number, "in", name, kind))}
        )
        write_blob(values[-1]["file"], Blob(name, kind, array))
    return {"net": path, "values": values, "results": made.results, "spans": made.spans}


class _Scratch(Runner):
    """A scratch workspace, emptied when it is no longer needed."""

    def __init__(self, switched: Callable[[str], Any]) -> None:
        self._switched: Callable[[], Any] = lambda: switched("inside")
        self._used = False

    def feed(self, values: Dict[str, np.ndarray], scopes: Sequence[str]) -> None:
        """Begin anew with these blobs."""
        self._used = True
        with self._switched():
            workspace.ResetWorkspace()
            for name, array in values.items():
                reader.feed(name, array, STRING if array.dtype.kind in "OSU" else TENSOR)
            for name in scopes:
                scope = caffe2_pb2.OperatorDef(type="CreateScope", output=[name])
                C.run_operator_once(scope.SerializeToString())

    def run(self, net: Any) -> None:
        """Run a net once."""
        with self._switched():
            C.run_net_once(net.SerializeToString())

    def fetch(self, name: str) -> np.ndarray:
        """A blob's value."""
        with self._switched():
            array = reader.read(name).array
        if array is None:
            raise UsageError("it cannot be entered: its nets do not write %s" % name)
        return array

    def close(self) -> None:
        """Empty the workspace."""
        if self._used:
            with self._switched():
                workspace.ResetWorkspace()
