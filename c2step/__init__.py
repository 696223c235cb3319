"""c2step: the stepping debugger for Caffe2.

    import c2step

    with c2step.open("model.onnx", inputs={"x": array}) as session:
        session.until("conv2")
        print(session.summary("relu1"))
        session.cont()
        print(session.fetch("prob").array)

`c2step.open` returns a `stepper.Session`, which has the verbs of the prompt that run, go back, stop, change and save.
Golden values are loaded by `c2step.against`; `enter` and `repro` are here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Union

from .errors import C2StepError

if TYPE_CHECKING:
    import numpy as np

    from .capture import Capture
    from .compare.against import Against
    from .compare.blame import Blame
    from .hooks import Call, Hook
    from .importer.inputs import Preprocess
    from .nested import Inside
    from .references import Reference
    from .reproducing import Repro
    from .stepper import Keep, Session, Stop
    from .sweeping import Sweep
    from .sweeping.items import Inputs as SweepInputs
    from .workspace.wrapping import Wrapping

    Inputs = Union[None, np.ndarray, Mapping[str, np.ndarray], Sequence[str]]
    Decorator = Callable[[Callable[[Call], Any]], Hook]

__version__ = "0.1.0"
__all__ = [
    "C2StepError",
    "after",
    "against",
    "before",
    "blame",
    "dump",
    "enter",
    "open",
    "open_capture",
    "repro",
    "resume",
    "sweep",
    "wrapped",
]


def open(
    model: Optional[str] = None,
    inputs: Inputs = None,
    init_net: Optional[str] = None,
    predict_net: Optional[str] = None,
    runtime: Optional[str] = None,
    in_process: bool = False,
    importing: str = "faithful",
    dims: Optional[Dict[str, int]] = None,
    seed: Optional[int] = None,
    as_float32: bool = False,
    preprocess: Optional[Preprocess] = None,
    partial: bool = False,
    timeout: Optional[float] = None,
    keep: Optional[Keep] = None,
    on_output: Callable[[str], None] = lambda text: None,
    max_memory: Optional[int] = None,
    backend: str = "caffe2",
) -> Session:
    """Open a model, run its init_net, feed its inputs, and stand before operator 0.

    `model` is an .onnx file, a folder or a zip; or give `predict_net` (and `init_net`).  `inputs` are arrays by
    name, an array for a model's only input, or words such as "x=photo.npy" and "all.npz".  `runtime` is
    "python:PATH", "docker:IMAGE" or a version;
    `in_process` runs Caffe2 here, without the protection of a worker.  `importing` is "faithful" or "repaired".
    `seed` fills inputs that are not given at random, `dims` fixes symbolic dimensions, `partial` leaves out nodes that
    the backend refuses.  `timeout` is in seconds for one operator, `keep` says which blobs stay where, `on_output`
    gets what Caffe2 prints, `max_memory` is in bytes for the worker.  `backend` is the importer of ONNX models:
    "caffe2", or "onnx_caffe2", the one before it.  Raises C2StepError.
    """
    from .launch import open_session

    return open_session(
        model,
        inputs,
        init_net,
        predict_net,
        runtime,
        in_process,
        importing,
        dims,
        seed,
        as_float32,
        preprocess,
        partial,
        timeout,
        keep,
        on_output,
        max_memory,
        backend,
    )


def dump(model: Optional[str], inputs: Inputs, directory: str, **options: Any) -> Stop:
    """Run a model to its end, keep every output blob in `directory`, and return the Stop that ended it.

    `options` are those of `open`.
    """
    from .stepper import Keep

    with open(model, inputs, keep=Keep(directory, on_full="stop"), **options) as session:
        return session.cont()


def open_capture(directory: str) -> Capture:
    """Open a directory that `dump` wrote."""
    from .capture import Capture

    return Capture(directory)


def against(
    session: Session,
    spec: str,
    names: Optional[str] = None,
    engine_runtime: Optional[str] = None,
    timeout: Optional[float] = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    tolerance: Sequence[str] = (),
) -> Against:
    """Load golden values into a session, as `reference SPEC` does at the prompt.

    Conditions may ask for them from then on; `rows` of the result compares what steps wrote.  `names` is the JSON file
    that says which blob each file holds, `tolerance` are words such as "type:Softmax=1e-2".
    """
    from .compare.loading import load_against
    from .compare.tolerance import Tolerances

    rules = Tolerances.parse(*tolerance, rtol=rtol, atol=atol)
    return load_against(session, spec, None, names, engine_runtime, timeout, rules)


def blame(session: Session, reference: Union[str, Reference, Against], continue_from_reference: bool = False) -> Blame:
    """Run the net twice and judge every operator, in the run and alone, as `c2step blame` does.

    `reference` are golden values that were loaded, or words that say where they are, as `against` takes them.
    Both runs begin at the start, without patches and breakpoints; the session stands there afterwards.
    """
    from .compare.against import Against
    from .compare.blame import blame as judged
    from .compare.loading import from_the_start

    golden = against(session, reference) if isinstance(reference, str) else reference
    rules = golden.tolerances if isinstance(golden, Against) else None
    values = golden.reference if isinstance(golden, Against) else golden
    with from_the_start(session) as left_out:
        found = judged(session, values, rules, continue_from_reference)
    found.notes += left_out
    return found


def before(*patterns: str) -> Decorator:
    """Decorate a function that is to be called before operators of these types; see `c2step.hooks`."""
    from .hooks import before as decorator

    return decorator(*patterns)


def after(*patterns: str) -> Decorator:
    """Decorate a function that is to be called after operators of these types; see `c2step.hooks`."""
    from .hooks import after as decorator

    return decorator(*patterns)


def enter(session: Session) -> Inside:
    """Enter the next operator of a session, which has nets inside; `Session.step` runs such a one as a whole."""
    from .nested import enter as enter_operator

    return enter_operator(session)


def repro(
    session: Session,
    where: str,
    directory: str,
    reference: Optional[Reference] = None,
    timeout: Optional[float] = 120.0,
) -> Repro:
    """Cut operators out of a session's model so that they run on their own; see `c2step.reproducing.make_repro`."""
    from .reproducing import make_repro

    return make_repro(session, where, directory, reference, timeout)


def resume(
    directory: str,
    runtime: Optional[str] = None,
    in_process: bool = False,
    timeout: Optional[float] = None,
    on_output: Callable[[str], None] = lambda text: None,
    max_memory: Optional[int] = None,
) -> Session:
    """Open a session again that was left in this capture: same position, same blobs, edits, patches, breakpoints."""
    from .launch import resume_session

    return resume_session(directory, runtime, in_process, timeout, on_output, max_memory)


def sweep(model: Optional[str] = None, inputs: SweepInputs = (), against: str = "", **options: Any) -> Sweep:
    """Blame, or take statistics, over many inputs; see `c2step.sweeping.sweep` for the options and the result."""
    from .sweeping import sweep as run

    return run(model, inputs, against, **options)


def wrapped(
    types: Union[None, str, Iterable[str]] = None,
    save: Optional[str] = None,
    hooks: Sequence[Hook] = (),
    max_bytes: Optional[int] = None,
) -> Wrapping:
    """Save the inputs and outputs of operators of these types while your own Caffe2 code runs in the `with` block.

    `types` are operator types or patterns (default: all), `save` the folder, `hooks` functions made by `before` and
    `after`; `max_bytes` ends the saving, never the run.
    """
    from .workspace.wrapping import Wrapping

    return Wrapping(types, save, hooks, max_bytes)
