"""c2step: the stepping debugger for Caffe2.

    import c2step

    with c2step.open("model.onnx", inputs={"x": array}) as session:
        session.until("conv2")
        print(session.summary("relu1"))
        session.cont()
        print(session.fetch("prob").array)

`c2step.open` returns a `stepper.Session`; its verbs are those of the prompt.
"""

from typing import Any

from .errors import C2StepError

__version__ = "0.1.0"
__all__ = [
    "C2StepError",
    "after",
    "against",
    "before",
    "dump",
    "enter",
    "open",
    "open_capture",
    "repro",
    "resume",
    "wrapped",
]


def open(model: Any = None, inputs: Any = None, **options: Any) -> Any:
    """Open a model and stand before its first operator; see `c2step.launch.open_session` for the options."""
    from .launch import open_session

    return open_session(model, inputs, **options)


def dump(model: Any, inputs: Any, directory: str, **options: Any) -> Any:
    """Run a model to its end, keep every output blob in `directory`, and return the Stop that ended it."""
    from .launch import open_session
    from .stepper import Keep

    with open_session(model, inputs, keep=Keep(directory, on_full="stop"), **options) as session:
        return session.cont()


def open_capture(directory: str) -> Any:
    """Open a directory that `dump` wrote; see `c2step.capture.Capture`."""
    from .capture import Capture

    return Capture(directory)


def against(
    session: Any,
    spec: str,
    names: Any = None,
    engine_runtime: Any = None,
    timeout: Any = None,
    rtol: Any = None,
    atol: Any = None,
    tolerance: Any = (),
) -> Any:
    """Load golden values into a session, as `reference SPEC` does; see `c2step.compare.against.Against`."""
    from .compare.loading import load_against
    from .compare.tolerance import Tolerances

    rules = Tolerances.parse(*tolerance, rtol=rtol, atol=atol)
    return load_against(session, spec, None, names, engine_runtime, timeout, rules)


def before(*patterns: str) -> Any:
    """Decorate a function that is to be called before operators of these types; see `c2step.hooks`."""
    from .hooks import before as decorator

    return decorator(*patterns)


def after(*patterns: str) -> Any:
    """Decorate a function that is to be called after operators of these types; see `c2step.hooks`."""
    from .hooks import after as decorator

    return decorator(*patterns)


def enter(session: Any) -> Any:
    """Enter the next operator of a session, which has nets inside; see `c2step.nested.Inside`."""
    from .nested import enter as enter_operator

    return enter_operator(session)


def repro(session: Any, where: str, directory: str, **options: Any) -> Any:
    """Cut operators out of a session's model so that they run on their own; see `c2step.reproducing.make_repro`."""
    from .reproducing import make_repro

    return make_repro(session, where, directory, **options)


def resume(directory: str, **options: Any) -> Any:
    """Open a session again that was left in this capture; see `c2step.launch.resume_session`."""
    from .launch import resume_session

    return resume_session(directory, **options)


def wrapped(types: Any = None, save: Any = None, **options: Any) -> Any:
    """Save the inputs and outputs of operators of these types while your own Caffe2 code runs in the `with` block.

    See `c2step.workspace.wrapping.Wrapping`; `hooks` are functions made by `before` and `after`.
    """
    from .workspace.wrapping import Wrapping

    return Wrapping(types, save, **options)
