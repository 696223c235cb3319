"""The far side of a job: a process that measures the inputs it is asked for, one line of JSON each.

It ends when the other side closes the pipe, in the middle of an input too.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any, Dict, Optional, Tuple

from ..capture import read_blob
from ..errors import C2StepError, ConversionError
from .measuring import Measurer
from .plan import Plan

__all__ = ["main"]


def main() -> None:
    """Answer requests until there are no more."""
    requests, replies = _take_the_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the near side decides what Ctrl-C stops
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    lines: "queue.Queue[Optional[bytes]]" = queue.Queue()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    server = _Server()
    with contextlib.suppress(BrokenPipeError, SystemExit):
        try:
            for line in iter(lines.get, None):
                replies.write(json.dumps(server.answer(json.loads(line.decode()))).encode() + b"\n")
                replies.flush()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            server.close()


def _take_the_pipes() -> Tuple[Any, Any]:
    """Keep stdin and stdout for ourselves: what user code prints goes to stderr."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, replies


def _read(requests: Any, lines: "queue.Queue[Optional[bytes]]") -> None:
    """Pass on what is asked; nobody to answer to ends what is under way."""
    for line in requests:
        lines.put(line)
    lines.put(None)
    os.kill(os.getpid(), signal.SIGTERM)


class _Server:
    def __init__(self) -> None:
        self._measurer: Optional[Measurer] = None
        self._told = False

    def answer(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Do one request."""
        try:
            return {"ok": getattr(self, "do_" + request["do"])(request)}
        except C2StepError as error:
            nodes = error.nodes if isinstance(error, ConversionError) else []
            return {"error": {"kind": type(error).__name__, "message": error.message, "hint": error.hint,
                              "nodes": nodes}}  # fmt: skip
        except Exception:
            return {"bug": traceback.format_exc()}

    def do_open(self, request: Dict[str, Any]) -> Any:
        plan = Plan.from_json(request["plan"])
        self._measurer = Measurer(plan, request["folder"], request["fast"])
        return self._measurer.declares()

    def do_measure(self, request: Dict[str, Any]) -> Any:
        assert self._measurer
        inputs = request["words"]
        if inputs is None:
            inputs = {name: read_blob(path, name, kind).array for name, (path, kind) in request["arrays"].items()}
        answer: Dict[str, Any] = {"row": self._measurer.measure(inputs, request["key"])}
        if self._measurer.facts and not self._told:
            answer.update(facts=self._measurer.facts, said=self._measurer.said())
            self._told = True
            if request["drawn"]:
                self._measurer.write_drawn(request["drawn"])
        return dict(answer, pids=self._measurer.pids())

    def close(self) -> None:
        """Let go of everything."""
        if self._measurer is not None:
            self._measurer.close()
