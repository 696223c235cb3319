"""Save what chosen operators read and write while somebody's own Caffe2 code runs.

    with c2step.wrapped({"Conv", "MaxPool"}, save="out/"):
        workspace.RunNet(net)

Caffe2's Python functions all go through one extension module.  While a `Wrapping` is active the few
functions there that create and run nets see to it that nets get their calls (`instrument`); afterwards
the functions are the old ones, and the calls in nets that stay do nothing.
"""

import contextlib
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

from ..blob import Blob
from ..errors import UsageError, near
from ..hooks import AFTER, BEFORE, Call, Hook
from . import instrument, reader
from .instrument import Site
from .saving import Saver
from .shadow import Shadow

__all__ = ["Wrapping"]

C: Any = workspace.C
# A net holds bytes only, so its calls name their Wrapping by number.  Only living ones are found here.
_LIVING: "weakref.WeakValueDictionary[int, Wrapping]" = weakref.WeakValueDictionary()
Rewrite = Callable[[bytes], bytes]


def make_call(wrapping: int, site: int, side: str) -> Callable[..., None]:
    """What a Python operator of a net calls; made when the operator is, wherever that net lives."""
    owner = _LIVING.get(wrapping)

    def call(inputs: Any, outputs: Any, space: Any) -> None:
        if owner is not None and owner.active:
            owner.visit(owner.sites[site], side, space)

    return call


class Wrapping:
    """A context in which chosen operators are watched; see the module's docstring.

    `types` are operator types or patterns (default: all).  `save` is the directory of a capture, `hooks`
    are functions made by `c2step.before` and `c2step.after`; where only hooks are given, their types are
    watched.  `max_bytes` ends the saving, never the run.  `notes` says what could not be watched.
    """

    def __init__(
        self,
        types: Union[None, str, Iterable[str]] = None,
        save: Optional[str] = None,
        hooks: Sequence[Hook] = (),
        max_bytes: Optional[int] = None,
    ) -> None:
        if save is None and not hooks:
            raise UsageError("nothing is to be done with the operators", "give save=FOLDER, or hooks=[...]")
        if types is None:
            types = ["*"] if save or not hooks else []
        self.types = [types] if isinstance(types, str) else sorted(types)
        self.hooks = list(hooks)
        self.patterns = self.types + [pattern for hook in self.hooks for pattern in hook.patterns]
        self.sites: List[Site] = []
        self.notes: List[str] = []
        self.active = False
        self._saver = Saver(save, self.types, max_bytes, self.note)
        self._patched: List[Tuple[Any, str]] = []
        self._known: Set[Tuple[str, str]] = set()
        self._lock = threading.RLock()
        self._errors: Dict[int, BaseException] = {}  # by thread
        self._calling: Dict[int, int] = {}  # threads that are inside Caffe2, how deep
        _LIVING[id(self)] = self

    @property
    def directory(self) -> Optional[str]:
        """The capture's directory."""
        return self._saver.directory

    @property
    def saved(self) -> int:
        """How many operators have been saved."""
        return self._saver.count

    def note(self, text: str) -> None:
        """Say once what the user should know."""
        if text not in self.notes:
            self.notes.append(text)
            print("c2step: %s" % text, file=sys.stderr)

    # -- entering and leaving -----------------------------------------------------------------

    def __enter__(self) -> "Wrapping":
        if any(other.active and self._clashes(other) for other in list(_LIVING.values())):
            raise UsageError("a wrapping that is active saves into %s" % self.directory, "give each its own folder")
        self._saver.begin()
        self._look_for_types()
        self._patch_all()
        self.active = True
        return self

    def _look_for_types(self) -> None:
        """Say which types or patterns no operator type has; one that is loaded later counts all the same."""
        known = workspace.RegisteredOperators()
        for pattern in dict.fromkeys(self.patterns):
            if not any(instrument.fits(type_, [pattern]) for type_ in known):
                hint = near(pattern, known)
                self.note("warning: no operator type of this Caffe2 is %s%s" % (pattern, "; " + hint if hint else ""))

    def _clashes(self, other: "Wrapping") -> bool:
        return other is self or self.directory is not None and self.directory == other.directory

    def __exit__(self, *_: Any) -> None:
        self.active = False
        for owner, name in self._patched:
            standing = vars(owner).get(name, getattr(owner, name))
            while hasattr(standing, "below") and not standing.wrapping.active:
                standing = standing.below  # a wrapping that was left before this one may have stood on it
            setattr(owner, name, standing)
        self._patched = []
        self._saver.end()
        if self.directory and not self.saved and not self.notes:
            self.note("warning: nothing was saved: no operator of the types %s ran" % ", ".join(self.types))

    def _patch_all(self) -> None:
        nets, plans = self._rewrite_net, self._rewrite_plan
        self._patch(C, "create_net", self._creating(C.create_net, 0))
        self._patch(C, "run_net", self._running(C.run_net))
        self._patch(C, "run_net_once", self._rewritten(C.run_net_once, nets))
        self._patch(C, "run_operator_once", self._alone(C.run_operator_once, 0))
        self._patch(C, "run_operator_multiple", self._alone(getattr(C, "run_operator_multiple", None), 0))
        self._patch(C, "run_plan", self._rewritten(C.run_plan, plans))
        self._patch(C, "run_plan_in_background", self._rewritten(getattr(C, "run_plan_in_background", None), plans))
        space = C.Workspace
        self._patch(space, "_run_operator", self._alone(space._run_operator, 1))
        self._patch(space, "_create_net", self._creating(space._create_net, 1))
        self._patch(space, "_run_net", self._rewritten(space._run_net, self._rewrite_sequential, at=1))
        self._patch(space, "_run_plan", self._rewritten(space._run_plan, plans, at=1))
        root = C.Predictor
        while hasattr(root, "__wrapped__"):
            root = root.__wrapped__
        predictor = self._predictor(C.Predictor)
        self._patch(C, "Predictor", predictor)
        self._patch(root, "run", self._of_before(root.run, predictor))

    def _patch(self, owner: Any, name: str, value: Any) -> None:
        if not hasattr(owner, name):  # an older Caffe2 has fewer
            return
        original = getattr(owner, name)
        ours: Any = value if isinstance(value, type) else self._while_active(value, original)
        ours.__wrapped__, ours.wrapping = original, self
        ours.below = vars(owner).get(name, original)  # a method as it stands
        self._patched.append((owner, name))
        setattr(owner, name, ours)

    def _while_active(self, ours: Any, original: Any) -> Any:
        def call(*arguments: Any) -> Any:
            return (ours if self.active else original)(*arguments)

        return call

    # -- what stands in for Caffe2's functions ------------------------------------------------

    def _creating(self, original: Any, at: int) -> Any:
        def create_net(*arguments: Any) -> Any:
            given = list(arguments)
            net = instrument.parsed(given[at])
            if net is not None:
                self._known.add((C.current_workspace(), net.name))
            given[at] = self._rewrite_net(given[at])
            return original(*given)

        return create_net

    def _running(self, original: Any) -> Any:
        def run_net(name: Any, *rest: Any) -> Any:
            label = name.decode() if isinstance(name, bytes) else str(name)
            if (C.current_workspace(), label) in self._known or label not in C.nets():
                return self._guarded(original, name, *rest)
            shadow = Shadow(label, self._rewrite_net, self._saver, self.note, self._original)
            return shadow.run(lambda: self._guarded(original, name, *rest), int(rest[0]) if rest else 1)

        return run_net

    def _rewritten(self, original: Any, rewrite: Rewrite, at: int = 0) -> Any:
        """The function with the bytes of its argument number `at` rewritten."""

        def run(*arguments: Any) -> Any:
            given = list(arguments)
            given[at] = rewrite(given[at])
            return self._guarded(original, *given)

        return run

    @staticmethod
    def _original(name: str) -> Any:
        """Caffe2's own function, below this wrapping and those around it."""
        function = getattr(C, name)
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        return function

    def _alone(self, original: Any, at: int) -> Any:
        """For an operator without a net, which stays without one; `at` 1 has its workspace before it."""

        def run(*arguments: Any) -> Any:
            op = caffe2_pb2.OperatorDef.FromString(arguments[at])
            site = instrument.site_of(op, "", 0)
            space = arguments[0] if at else C.Workspace.current
            given = list(arguments)
            if instrument.add_inside(op, self.patterns, self._builder, "RunOperatorOnce"):
                instrument.make_sequential_inside(op)
                given[at] = op.SerializeToString()
            if not instrument.fits(site.type, self.patterns):
                return self._guarded(original, *given)
            with self._inside():
                self._visit_alone(site, BEFORE, space)
                result = self._guarded(original, *given)
                self._visit_alone(site, AFTER, space)
            return result

        return run

    def _visit_alone(self, site: Site, side: str, space: Any) -> None:
        try:
            self.visit(site, side, space)
        finally:
            self._errors.pop(threading.get_ident(), None)

    def _predictor(self, original: Any) -> Any:
        rewrite, guarded = self._rewrite_sequential, self._guarded

        class Predictor(original):  # type: ignore[misc]
            """Caffe2's predictor over nets with calls in them."""

            def __init__(self, init_net: bytes, predict_net: bytes, *rest: Any) -> None:
                guarded(super().__init__, rewrite(init_net), rewrite(predict_net), *rest)

            def run(self, inputs: Any) -> Any:
                return guarded(super().run, inputs)

        return Predictor

    def _of_before(self, original: Any, predictor: Any) -> Any:
        """A Predictor's own `run`, which says of one that has no calls of ours in its nets that it goes unwatched.

        Its workspace and its nets cannot be reached from outside.
        """

        def run(made: Any, inputs: Any) -> Any:
            if not isinstance(made, predictor):
                self.note("a Predictor was made before the wrapping began: its operators are not saved; make it inside")
            return original(made, inputs)

        return run

    def _guarded(self, original: Any, *arguments: Any) -> Any:
        """Call Caffe2; an operator that fails is journalled, a hook's own error comes out as it was."""
        with self._inside():
            try:
                result = original(*arguments)
                if result is False:
                    self._failed("the net reported a failure")
                return result
            except Exception as error:
                hidden = self._failed(str(error))
                if hidden is not None:
                    raise hidden from None
                raise

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """What begins and fails in this thread is its own meanwhile."""
        thread = threading.get_ident()
        self._calling[thread] = self._calling.get(thread, 0) + 1
        try:
            yield
        finally:
            self._calling[thread] -= 1

    def _failed(self, error: str) -> Optional[BaseException]:
        """Journal what failed in this call, and return the hook's error that was the cause, if one was.

        What runs in a thread of Caffe2's own may be this call's; what runs in another caller's thread is not.
        """
        here = threading.get_ident()

        def ours(thread: int) -> bool:
            return thread == here or not self._calling.get(thread)

        with self._lock:
            self._saver.failed(error, ours)
            raised = [thread for thread in self._errors if ours(thread)]
            return self._errors.pop(raised[0]) if raised else None

    # -- nets and plans get their calls -------------------------------------------------------

    def _rewrite_net(self, data: bytes) -> bytes:
        net = instrument.parsed(data)
        if net is None or not self.active or not instrument.add_calls(net, self.patterns, self._builder):
            return data
        return bytes(net.SerializeToString())

    def _rewrite_sequential(self, data: bytes) -> bytes:
        """For a net that Caffe2 runs without letting go of Python's lock."""
        rewritten = self._rewrite_net(data)
        if rewritten == data:
            return data
        net = caffe2_pb2.NetDef.FromString(rewritten)
        instrument.make_sequential(net)
        return bytes(net.SerializeToString())

    def _rewrite_plan(self, data: bytes) -> bytes:
        plan = caffe2_pb2.PlanDef.FromString(data)
        for net in plan.network:
            self._known.add((C.current_workspace(), net.name))
        if not self.active:
            return data
        changed = [instrument.add_calls(net, self.patterns, self._builder) for net in plan.network]
        if not any(changed):
            return data
        return bytes(plan.SerializeToString())

    def _builder(self, site: Site, side: str) -> Tuple[Any, Tuple[Any, ...]]:
        if side == BEFORE:
            self.sites.append(site)
        return make_call, (id(self), len(self.sites) - 1, side)

    # -- an operator's turn -------------------------------------------------------------------

    def visit(self, site: Site, side: str, space: Any) -> None:
        """Look at an operator in the workspace that it runs in."""
        with self._lock:
            try:
                self._call_hooks(site, side, space)
                (self._saver.before if side == BEFORE else self._saver.after)(site, self._reader(space))
            except Exception as error:  # the user's own; Caffe2 would bury it in its text
                self._errors[threading.get_ident()] = error
                raise

    def _reader(self, space: Any) -> Callable[[str], Blob]:
        return lambda name: reader.read_in(space, name)

    def _call_hooks(self, site: Site, side: str, space: Any) -> None:
        for hook in self.hooks:
            if hook.side == side and hook.fits(site.type):
                outputs = _arrays(site.outputs, space) if side == AFTER else {}
                call = Call(site.index, site.type, site.name, site.net, _arrays(site.inputs, space), outputs)
                for name, value in hook(call).items():
                    space.create_blob(name).feed(reader.native(value))


def _arrays(names: Sequence[str], space: Any) -> Dict[str, np.ndarray]:
    blobs = [reader.read_in(space, name) for name in dict.fromkeys(names)]
    return {blob.name: np.array(blob.array) for blob in blobs if blob.array is not None}
