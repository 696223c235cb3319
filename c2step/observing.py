"""See from outside what is done with a session: a stand-in that tells observers of every verb.

The prompt gets the stand-in in place of the session.  What a verb does with the session by itself, and what
comparing and blaming do on the way to an answer, is not told: it is not the user's doing.
"""

import sys
from typing import Any, Callable, Dict, Sequence, Tuple, cast

from .stepper import Session

__all__ = ["LOOKS", "VERBS", "Observer", "observed"]

_MOVING = ("step", "next", "until", "cont", "run", "again", "restart", "back", "skip", "goto", "rcontinue", "rerun")
_CHANGING = ("feed", "put", "patch", "unpatch", "edit", "unedit", "keep_up_to", "limit_memory")
_SETTING = (
    "set_break",
    "watch",
    "delete_break",
    "enable",
    "ignore",
    "set_commands",
    "wrap",
    "unwrap",
    "hook",
    "unhook",
)
VERBS = frozenset(_MOVING + _CHANGING + _SETTING + ("save", "save_all", "write_net"))
LOOKS = frozenset(["fetch"])
_OURS = ("c2step.compare", "c2step.reproducing", "c2step.analyses", "c2step.report")
_INSIDE = ("c2step.nested",)  # what it looks at is no one's doing; what it runs in the outer session is


class Observer:
    """Is told of each verb, after it was done."""

    def did(self, verb: str, arguments: Tuple[Any, ...], options: Dict[str, Any], result: Any) -> None:
        """A verb of the session was called with these, and gave this."""

    def looked(self, verb: str, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> None:
        """A value was looked at."""

    def set(self, name: str, value: Any) -> None:
        """An attribute of the session was set."""

    def typed(self, command: str) -> None:
        """A command of the prompt was run, and all that it did with the session was told."""


def observed(session: Session, observers: Sequence[Observer]) -> Session:
    """A stand-in for a session that tells these observers."""
    return cast(Session, _Observed(session, observers)) if observers else session


class _Observed:
    def __init__(self, session: Session, observers: Sequence[Observer]) -> None:
        self.__dict__.update(_session=session, _observers=observers)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if name in VERBS:
            return self._telling(name, found, [observer.did for observer in self._observers])
        if name in LOOKS:
            looked = [observer.looked for observer in self._observers]
            return self._telling(name, found, [_without_result(tell) for tell in looked], _OURS + _INSIDE)
        return found

    def typed(self, command: str) -> None:
        for observer in self._observers:
            observer.typed(command)

    def _telling(
        self,
        name: str,
        verb: Callable[..., Any],
        listeners: Sequence[Callable[..., None]],
        ours: Tuple[str, ...] = _OURS,
    ) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            result = verb(*arguments, **options)
            if not _asked_by_us(ours):
                for listener in listeners:
                    listener(name, arguments, options, result)
            return result

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._session, name, value)
        if name != "compared" and _asked_by_us():
            return
        for observer in self._observers:
            observer.set(name, value)

    def __enter__(self) -> "_Observed":
        return self

    def __exit__(self, *_: Any) -> None:
        self._session.close()


def _without_result(tell: Callable[..., None]) -> Callable[..., None]:
    return lambda verb, arguments, options, result: tell(verb, arguments, options)


def _asked_by_us(ours: Tuple[str, ...] = _OURS) -> bool:
    """Whether the verb was called on the way to an answer, not by a command or the user's code."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(ours)
