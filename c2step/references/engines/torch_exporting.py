"""A PyTorch module exported to ONNX with outputs of inner modules as named outputs, its code unchanged.

Forward hooks see what the chosen modules give while the module is traced; each is copied there and then, so
that a later operation in place does not change it, and becomes an output after the module's own.
"""

import inspect
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from c2step.errors import UsageError, near

from .serve import Event, serve
from .torch_engine import ROOT, TorchEngine, flatten, forward, settle, tensor

__all__ = ["main"]


def main() -> None:
    """Serve requests on the pipe."""
    engine = _Exporter()
    serve({"open": engine.open, "list": engine.list, "export": engine.export})


class _Call(NamedTuple):
    name: str
    kind: str
    tensors: Tuple[Tuple[str, Any], ...]


class _Exporter(TorchEngine):
    def list(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Every call of every module, with the names and shapes of what it gives."""
        calls = self._calls(self._arguments(request))
        rows = [{"name": c.name, "type": c.kind, "outputs": [[n, list(t.shape)] for n, t in c.tensors]} for c in calls]
        return {"calls": rows}

    def export(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Write the model; the answer names all outputs."""
        arguments = self._arguments(request)
        known = {name: t for call in self._calls(arguments) for name, t in call.tensors}
        wanted = [self._name(name, known) for name in request["outputs"]]
        with torch.no_grad():
            own = [name for name, _ in flatten("output", self.module(*arguments))]
        wrapper = _Wrapper(self.module, wanted)
        send({"doing": "the export of %d outputs" % (len(own) + len(wanted))})
        self._export(wrapper, arguments, request, own + wanted)
        return {"outputs": own + wanted, "inputs": self.names}

    def _arguments(self, request: Dict[str, Any]) -> List[Any]:
        missing = [name for name in self.names if name not in request["files"]]
        if missing:
            raise UsageError("no value for input %s of the module" % missing[0], "give it with --input")
        return [tensor(name, request["files"][name]) for name in self.names]

    def _calls(self, arguments: Sequence[Any]) -> List[_Call]:
        settle()
        with _Hooks(self.module) as hooks, torch.no_grad():
            forward(self.module, self.names, arguments)
        return hooks.calls

    @staticmethod
    def _name(name: str, known: Dict[str, Any]) -> str:
        if name in known:
            return name
        hint = near(name, known) or "--list shows what there is"
        raise UsageError("no module gives %s" % name, hint)

    def _export(self, wrapper: Any, arguments: Sequence[Any], request: Dict[str, Any], outputs: List[str]) -> None:
        options: Dict[str, Any] = {
            "input_names": self.names,
            "output_names": outputs,
            "opset_version": request["opset"],
        }
        if "dynamo" in inspect.signature(torch.onnx.export).parameters:
            options["dynamo"] = False  # hooks are seen by tracing
        settle()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(wrapper, tuple(arguments), request["out"], **options)


class _Hooks:
    """While entered, notes each call of each module as it ends."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.calls: List[_Call] = []
        self._counts: Dict[str, int] = {}
        self._handles: List[Any] = []

    def __enter__(self) -> "_Hooks":
        for path, inner in self.module.named_modules():
            kind = type(inner).__name__
            hook = lambda m, i, out, path=path or ROOT, kind=kind: self._take(path, kind, out)  # noqa: E731
            self._handles.append(inner.register_forward_hook(hook))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _take(self, path: str, kind: str, outputs: Any) -> None:
        self._counts[path] = count = self._counts.get(path, 0) + 1
        name = path if count == 1 else "%s#%d" % (path, count)
        self.calls.append(_Call(name, kind, tuple(_tensors(name, outputs))))


def _tensors(name: str, outputs: Any) -> Iterator[Tuple[str, Any]]:
    for key, value in flatten(name, outputs):
        if isinstance(value, torch.Tensor):
            yield key, value.clone()


class _Wrapper(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The module, giving its own outputs and then the chosen ones."""

    def __init__(self, module: Any, wanted: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.wanted = list(wanted)

    def forward(self, *arguments: Any) -> Tuple[Any, ...]:
        with _Hooks(self.module) as hooks:
            own = self.module(*arguments)
        given = dict(pair for call in hooks.calls for pair in call.tensors)
        return tuple(value for _, value in flatten("output", own)) + tuple(given[name] for name in self.wanted)
