"""Nets that were there before they could get their calls.

Caffe2 does not give a net's NetDef back, and making the net anew would lose the state that it keeps.  So
such a net runs untouched.  Where its NetDef can still be found among the objects of this process, a copy
of the net with calls runs afterwards on copies of the same blobs, in a workspace of its own, and what it
saved counts only if it wrote the same bytes everywhere.
"""

import gc
from typing import Any, Callable, Dict, List, Optional, Set

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from ..blob import INT8, OTHER, Blob
from . import instrument, reader
from .saving import Saver

__all__ = ["Shadow"]

C: Any = workspace.C
_NAME, _SCOPE = "c2step-shadow", "c2step-shadow-scope"
# What the calls at both ends of the copy use, by number; an entry lives as long as one run.
_RUNNING: Dict[int, "Shadow"] = {}


def make_end(number: int, end: str) -> Callable[..., None]:
    """The Python operator at an end of the copy: it feeds the blobs, or compares them."""

    def call(inputs: Any, outputs: Any, space: Any) -> None:
        shadow = _RUNNING[number]
        (shadow.feed if end == "feed" else shadow.compare)(space)

    return call


class Shadow:
    """One run of one such net."""

    def __init__(
        self, name: str, rewrite: Callable[[bytes], bytes], saver: Saver, note: Callable[[str], None], original: Any
    ) -> None:
        self._name = name
        self._rewrite = rewrite
        self._saver = saver
        self._note = note
        self._original = original
        self._fed: List[Blob] = []
        self._written: List[str] = []
        self._differing: List[str] = []

    def run(self, native: Callable[[], Any], times: int) -> Any:
        """Run the net itself, then the copy; returns what the net itself returned."""
        data = self._prepare()
        result = native()
        if data is not None and result:
            self._copy(data, times)
        return result

    def _prepare(self) -> Optional[bytes]:
        found = _definitions(self._name)
        if len(found) != 1:
            why = "its NetDef is no longer at hand" if not found else "there are several NetDefs of that name"
            self._say(why)
            return None
        data = found.pop()
        net = caffe2_pb2.NetDef.FromString(data)
        rewritten = self._rewrite(data)
        if rewritten == data:
            return None
        names = instrument.mentioned(net)
        self._fed = [reader.read(name) for name in names if C.has_blob(name)]
        self._written = [name for name, written in names.items() if written]
        other = [blob.name for blob in self._fed if blob.kind in (INT8, OTHER)]
        if other:
            self._say("it uses %s, which cannot be copied" % other[0])
            return None
        return rewritten

    def _say(self, why: str) -> None:
        self._note(
            "net %s was created before the wrapping began, and %s: its operators are not saved; create it inside"
            % (self._name, why)
        )

    def _copy(self, data: bytes, times: int) -> None:
        _RUNNING[id(self)] = self
        self._saver.hold()
        good = False
        try:
            self._run(caffe2_pb2.NetDef.FromString(data), times)
            good = not self._differing
            if not good:
                self._say("a copy of it gives other values for %s" % self._differing[0])
        except Exception as error:
            self._say("a copy of it fails (%s)" % str(error).split("\n")[0])
        finally:
            self._saver.release(good)
            del _RUNNING[id(self)]

    def _run(self, net: Any, times: int) -> None:
        """Three Do operators share a scope, a workspace that sees nothing of ours and goes away with its blob."""
        first = caffe2_pb2.NetDef(name=_NAME + "-scope")
        first.op.add(type="CreateScope", output=[_SCOPE])
        self._original("run_net_once")(first.SerializeToString())
        outer = caffe2_pb2.NetDef(name=_NAME)
        outer.op.extend([_inside(self._end("feed")), _inside(net), _inside(self._end("compare"))])
        self._original("create_net")(outer.SerializeToString(), True)
        try:
            self._original("run_net")(_NAME, times, False)
        finally:
            C.delete_net(_NAME)
            C.Workspace.current.remove_blob(_SCOPE)

    def _end(self, name: str) -> Any:
        net = caffe2_pb2.NetDef(name="%s-%s" % (_NAME, name))
        net.op.extend([instrument.call_operator((make_end, (id(self), name)), ())])
        return net

    def feed(self, space: Any) -> None:
        """Put the copies of the blobs into the copy's workspace, once."""
        fed, self._fed = self._fed, []
        for blob in fed:
            if blob.array is not None:
                space.create_blob(blob.name).feed(blob.array)

    def compare(self, space: Any) -> None:
        """Note which blobs differ from those that the net itself wrote; the last run counts."""
        self._differing = []
        for name in self._written:
            ours, theirs = reader.read_in(space, name), reader.read(name, view=True)
            if ours.kind != theirs.kind or not _same(ours.array, theirs.array):
                self._differing.append(name)


def _inside(net: Any) -> Any:
    op = caffe2_pb2.OperatorDef(type="Do", input=[_SCOPE], output=[_SCOPE])
    op.arg.add(name="net").n.CopyFrom(net)
    op.arg.add(name="reuse_workspace").i = 1
    op.arg.add(name="inner_blobs")
    op.arg.add(name="outer_blobs_idx")
    return op


def _same(left: Optional[np.ndarray], right: Optional[np.ndarray]) -> bool:
    if left is None or right is None:
        return left is right
    if left.dtype.kind in "OSU":
        return bool(np.array_equal(left, right))
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def _definitions(name: str) -> Set[bytes]:
    """The NetDefs of this name that objects of this process hold."""
    found: Set[bytes] = set()
    for thing in gc.get_objects():
        kind = type(thing)
        values = thing.values() if kind is dict else thing if kind in (list, tuple) else (thing,)
        for value in list(values):
            if issubclass(type(value), core.Net):
                value = value.Proto()
            if type(value) is caffe2_pb2.NetDef and value.name == name:
                found.add(bytes(value.SerializeToString(deterministic=True)))
    return found
