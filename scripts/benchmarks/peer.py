"""The other side: a process that knows nothing of c2step, asked over a pipe and timing itself."""

import json
import os
import subprocess
from typing import Any, List

__all__ = ["Peer"]


class Peer:
    """One of the scripts in `peers/`, running: `ask(do, ...)` calls its function `do`."""

    def __init__(self, python: str, name: str) -> None:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", name + ".py")
        self._process = subprocess.Popen(
            [python, "-W", "ignore", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            universal_newlines=True,
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """What the function returns; RuntimeError with its traceback where it raises."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([do, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the other side ended with exit status %d" % self._process.wait())
        reply = json.loads(line)
        if "raised" in reply:
            raise RuntimeError("the other side failed:\n%s" % reply["raised"])
        return reply["returned"]

    def seconds(self, do: str, **arguments: Any) -> float:
        """The seconds that the function says it took."""
        return float(self.ask(do, **arguments))

    @property
    def pids(self) -> List[int]:
        """Its process."""
        return [self._process.pid]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
