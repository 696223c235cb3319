"""An engine's main loop: one request a line, any number of events, one answer.

The pipes belong to the two processes alone.  What a library prints goes to the standard error
stream, which the near side catches and shows.
"""

import ctypes
import json
import os
import sys
import traceback
from typing import Any, Callable, Dict, Tuple

from c2step.errors import C2StepError

__all__ = ["Event", "Handler", "serve"]

Event = Callable[[Dict[str, Any]], None]
Handler = Callable[[Dict[str, Any], Event], Dict[str, Any]]


def serve(handlers: Dict[str, Handler]) -> None:
    """Answer requests until the other side closes the pipe."""
    requests, replies = _take_the_pipes()

    def send(message: Dict[str, Any]) -> None:
        replies.write(json.dumps(message).encode() + b"\n")
        replies.flush()

    send({"done": {"python": sys.version.split()[0]}})
    for line in requests:
        request = json.loads(line.decode())
        send(_answer(handlers[request["do"]], request, lambda event: send({"event": event})))
    for flush in (sys.stdout.flush, sys.stderr.flush, lambda: ctypes.CDLL(None).fflush(None)):
        flush()
    os._exit(0)  # to take down the libraries takes longer than a small model, and nothing is left to lose


def _answer(handler: Handler, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
    try:
        return {"done": handler(request, send)}
    except C2StepError as error:
        return {"refused": error.message, "hint": error.hint, "class": type(error).__name__}
    except BrokenPipeError:
        sys.exit(0)  # nobody is listening any more
    except Exception:
        return {"bug": traceback.format_exc()}


def _take_the_pipes() -> Tuple[Any, Any]:
    """Keep stdin and stdout for ourselves and give everybody else an empty one and stderr."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies
