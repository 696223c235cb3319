"""Measures one input after another: the model is opened once, the engine of golden values once, nothing is kept."""

import os
import shutil
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .. import __version__
from ..budget import estimate
from ..compare.blame import Judge
from ..compare.standing import Source, open_source
from ..errors import C2StepError, InputError, WorkerDied
from ..launch import default_keep, fed_spec, make_workspace, model_spec, read_fed, unpack_folder
from ..net import Net, is_random
from ..recording import Keep
from ..references import Reference
from ..stepper import Session
from ..workspace import Workspace
from .items import digest_of
from .plan import Plan
from .rows import add_channels, blame_row, died, error_row, fed, run_row

__all__ = ["Measurer"]

Inputs = Union[Sequence[str], Dict[str, np.ndarray]]
_SMALL = 64 << 20  # bytes of blobs that may lie in memory while an input is measured
_COPIES = 3  # of each blob: the run's, the golden one, that on golden inputs


class Measurer:
    """A model and its reference, open; `measure` gives the row of one input after another.

    `folder` and `fast`, which is in memory or empty, are for what must be written on the way; nothing stays
    there.  `facts` is what every row of a sweep must agree in, and is known after the first one.
    """

    def __init__(self, plan: Plan, folder: str, fast: str = "") -> None:
        self.plan = plan
        self.facts: Dict[str, Any] = {}
        self._folder, self._fast = folder, fast
        self._blobs = folder
        self._workspace: Optional[Workspace] = None
        self._declares: Dict[str, Any] = {}
        self._spec: Dict[str, Any] = {}
        self._shapes: Optional[Tuple[Any, ...]] = None
        self._notes: List[str] = []
        self._session: Optional[Session] = None
        self._source: Optional[Source] = None

    def declares(self) -> Dict[str, Any]:
        """What the model takes: kind, inputs, other names that may be fed."""
        if not self._declares:
            plan = self.plan
            self._workspace = make_workspace(plan.runtime, timeout=plan.timeout, max_memory=plan.max_memory)
            self._spec = model_spec(
                plan.model, plan.init_net, plan.predict_net, plan.importing, plan.dims, plan.partial, plan.backend
            )
            self._spec.update(unpack_folder(self._workspace, plan.model))
            self._declares = self._workspace.declare(self._spec)
        return self._declares

    def measure(self, inputs: Inputs, key: str) -> Dict[str, Any]:
        """The row of one input, given as words of `--input` or as arrays; `key` names it in a folder of references.

        Where a process ended on the way, or anything else failed than the input itself, it is tried once more: that
        may have come from outside.  An error that says nothing of the input is raised while none was measured yet.
        """
        row, clean = self._try(inputs, key)
        return row if clean else self._try(inputs, key)[0]

    def _try(self, inputs: Inputs, key: str) -> Tuple[Dict[str, Any], bool]:
        """The row, and whether no process ended on the way to it."""
        deaths = self._source.deaths if self._source else 0
        try:
            row = self._measured(inputs, key)
        except C2StepError as error:
            if not self.facts and not isinstance(error, (InputError, WorkerDied)):
                raise
            row = error_row(error)
        finally:
            self._clear()
        same = not self._source or self._source.deaths == deaths
        sure = row["status"] == "ok" or row["kind"] == InputError.__name__
        return row, same and sure and died(row) is None

    def _measured(self, inputs: Inputs, key: str) -> Dict[str, Any]:
        session = self._standing(inputs)
        unfed = session.unfed()
        if unfed:
            raise InputError("input %s has no value" % unfed[0], "feed all inputs: %s" % _named(session))
        row = self._blamed(session, key) if self.plan.against else self._ran(session)
        return dict(row, fed=fed(session.inputs), **({"notes": self._notes} if self._notes else {}))

    # -- opening ------------------------------------------------------------------------------

    def _standing(self, inputs: Inputs) -> Session:
        """The session before its first operator, with these inputs; opened anew where the model depends on shapes."""
        plan, declares = self.plan, self.declares()
        assert self._workspace
        found = read_fed(self._workspace, declares, inputs, plan.dims, plan.seed, plan.as_float32, plan.preprocessing())
        self._notes = found.notes
        spec = dict(self._spec, **fed_spec(found))
        shapes = (spec["input_shapes"], spec["input_values"] if plan.importing == "repaired" else None)
        if self._session is None or self._shapes != shapes:
            self._session, self._shapes = None, None
            self._session = self._opened(spec, found.arrays)
            self._shapes = shapes
        self._session.restart(self._keep("run"), found.arrays)
        return self._session

    def _opened(self, spec: Dict[str, Any], arrays: Dict[str, np.ndarray]) -> Session:
        assert self._workspace
        session = Session(self._workspace, spec, arrays, Keep(self._folder, journal=False))
        if self.plan.drawn:
            with np.load(self.plan.drawn, allow_pickle=False) as archive:
                session.catch_up({name: archive[name] for name in archive.files})
        need = estimate(session)
        small = need.outputs == need.known and _COPIES * need.nbytes < _SMALL
        self._blobs = self._fast if self._fast and small else self._folder
        return session

    def _keep(self, name: str) -> Keep:
        folder = os.path.join(self._blobs, name)
        os.mkdir(folder)
        level = "full" if self.plan.against or self.plan.channels else "stats"
        return Keep(folder, level, default_keep(folder).max_bytes, journal=False)

    # -- measuring ----------------------------------------------------------------------------

    def _blamed(self, session: Session, key: str) -> Dict[str, Any]:
        plan = self.plan
        if self._source is None:
            runtime = plan.engine_runtime or plan.runtime
            self._source = open_source(plan.against, session.model.files, plan.names, runtime, plan.timeout)
        reference = self._source.make(session, key, os.path.join(self._blobs, "golden"))
        judge = Judge(session, reference, plan.tolerances(), hints=False)
        row = blame_row(judge.judge(plan.go_on, self._keep("alone")))
        self._learn(session, reference)
        file = self._source.file(key)
        return dict(row, reference=digest_of(file)) if file else row

    def _ran(self, session: Session) -> Dict[str, Any]:
        stop = session.cont()
        row = run_row(session, stop)
        if self.plan.channels:
            add_channels(row, session, stop)
        self._learn(session, None)
        return row

    def _learn(self, session: Session, reference: Optional[Reference]) -> None:
        if self.facts:
            return
        versions = {name: v for name, v in session.versions_of_runtime.items() if name != "executable"}
        self.facts = {"c2step": __version__, "model": session.model.sha256, "versions": versions}
        if reference is not None and self._source is not None:
            self.facts["reference"] = self._source.about(reference)

    def said(self) -> Dict[str, Any]:
        """What is worth saying of the model: notes and findings, what draws random numbers, what init_net drew."""
        session = self._session
        if session is None:
            return {}
        model = session.model
        notes = list(model.notes) + _random(model.predict_net)
        return {"model": model.path, "notes": notes, "findings": list(model.findings), "drawn": sorted(session.drawn)}

    def write_drawn(self, path: str) -> None:
        """Write what init_net drew at random, for the other jobs; nothing where it was given."""
        if self._session is not None and self._session.drawn and not self.plan.drawn:
            np.savez(path, **self._session.drawn)

    def pids(self) -> List[int]:
        """This process and those that belong to it."""
        worker = getattr(self._workspace, "pid", None)
        return [os.getpid()] + ([worker] if worker else []) + (self._source.pids() if self._source else [])

    def _clear(self) -> None:
        for name in ("run", "golden", "alone"):
            shutil.rmtree(os.path.join(self._blobs, name), ignore_errors=True)

    def close(self) -> None:
        """End what belongs to it."""
        if self._source is not None:
            self._source.close()
        if self._workspace is not None:
            self._workspace.close()
        self._clear()


def _named(session: Session) -> str:
    return ", ".join(str(declared) for declared in session.model.inputs)


def _random(net: Net) -> List[str]:
    free = [str(op) for op in net.operators if is_random(op) and "seed" not in op.device and "seed" not in net.device]
    if not free:
        return []
    return ["%s draws random numbers without a seed: figures behind it differ from run to run" % ", ".join(free[:4])]
