"""What an operator's error says, whichever way Caffe2 puts it.  Worker side only."""

import re
from typing import Any

from caffe2.proto import caffe2_pb2

__all__ = ["outspoken", "reason_of", "says_nothing"]

_ENFORCE = re.compile(r"^\[enforce fail at ([^\]]+)\]\s*")
_OPERATOR = re.compile(r"Error from operator:?\s*\n(.*?)(?=\(?Error from operator|\n|$)")
_OUTPUT, _TYPE = re.compile(r'output: "([^"]*)"'), re.compile(r' type: "([^"]*)"')


def reason_of(error: BaseException) -> str:
    """What an operator's error says, without the C++ stack and the operator's own text.

    Where it comes from an operator of a net inside, that one is named.
    """
    whole = text = str(error)
    for mark in ("(Error from operator", "Error from operator", "\nframe #", "Exception raised from", "\n\tframe"):
        text = text.split(mark)[0]
    source = _ENFORCE.match(text)
    words = " ".join(_ENFORCE.sub("", text).split())
    words = words[2:] if words.startswith(". ") else words
    said = "%s [%s]" % (words, source.group(1)) if source else words
    operators = _OPERATOR.findall(whole)
    return "%s, in %s inside it" % (said, _named(operators[0])) if len(operators) > 1 else said


def _named(text: str) -> str:
    output, type_ = _OUTPUT.search(text), _TYPE.search(text)
    return "%s%s" % (type_.group(1) if type_ else "an operator", ' "%s"' % output.group(1) if output else "")


def says_nothing(error: BaseException) -> bool:
    """Whether Caffe2 says no more than that a net failed: its reason went into a log that nobody reads."""
    return "Error running net" in str(error)


def outspoken(op: Any) -> Any:
    """The same operator, which raises its errors: the executor of time steps keeps them to itself."""
    copy = caffe2_pb2.OperatorDef()
    copy.CopyFrom(op)
    for arg in copy.arg:
        if arg.name == "enable_rnn_executor":
            arg.i = 0
    return copy
