"""Run an unchanged Caffe2 script, and dump what its operators read and write if the environment says so.

    C2STEP=dump:out python -m c2step.wrap their_script.py arguments

C2STEP=dump:DIR saves into DIR, C2STEP_TYPES=Conv,MaxPool only operators of these types or patterns.
Without C2STEP the script runs as if it were run by itself: nothing is imported, nothing is patched.
"""

import importlib.abc
import importlib.util
import os
import runpy
import sys
from typing import Any, List, Optional

__all__ = ["main"]

_EXTENSION = "caffe2.python.workspace"
_USAGE = "usage: [C2STEP=dump:DIR] [C2STEP_TYPES=T,T] python -m c2step.wrap SCRIPT [ARGUMENT...]"


def main(arguments: List[str]) -> None:
    """Run the script that the first argument names."""
    if arguments[:1] in (["-h"], ["--help"]):
        print("%s\n\n%s" % (_USAGE, (__doc__ or "").strip()))
        return
    if not arguments or not os.path.isfile(arguments[0]):
        sys.exit("error: %s\n  %s" % ("there is no script %s" % arguments[0] if arguments else "no script", _USAGE))
    kind, _, directory = os.environ.get("C2STEP", "").partition(":")
    if kind and (kind != "dump" or not directory):
        sys.exit("error: C2STEP=%s is not known\n  %s" % (os.environ["C2STEP"], _USAGE))
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    if not kind:
        runpy.run_path(arguments[0], run_name="__main__")
        return
    switch = _Switch(os.path.abspath(directory), os.environ.get("C2STEP_TYPES", ""))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        switch.off()


class _Switch(importlib.abc.MetaPathFinder):
    """Begins to wrap when the script imports Caffe2, not before: its settings must still count."""

    def __init__(self, directory: str, types: str) -> None:
        self._directory = directory
        self._types = [name for name in types.split(",") if name] or None
        self._wrapping: Any = None
        self._busy = False
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        """The spec that Python itself finds, with a loader that switches the wrapping on."""
        if name != _EXTENSION or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def on(self) -> None:
        """Begin to wrap."""
        from .errors import C2StepError
        from .workspace.wrapping import Wrapping

        sys.meta_path.remove(self)
        try:
            self._wrapping = Wrapping(self._types, self._directory).__enter__()
        except C2StepError as error:
            sys.exit("error: %s" % error)

    def off(self) -> None:
        """Stop wrapping."""
        if self._wrapping is not None:
            self._wrapping.__exit__()


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, switch: _Switch) -> None:
        self._loader = loader
        self._switch = switch

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        self._switch.on()


if __name__ == "__main__":
    main(sys.argv[1:])
