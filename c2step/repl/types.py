"""Argument types: one small class each, which reads a word, completes it, and words it for help.

A command's annotations are these classes, and its body gets values of them: `Where` is a `str`,
`Count` an `int`, `BlobRef` a name with a version and a slice.
"""

import glob
import os
import re
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Tuple

from ..errors import UsageError, near
from ..render import blob_label, quote
from ..sizes import parse_size
from .context import Context
from .lexer import Token
from .slices import Index, parse_index, split_reference

__all__ = [
    "ONCE",
    "ArgumentType",
    "BlobName",
    "BlobPattern",
    "BlobRef",
    "BreakpointNumber",
    "Candidate",
    "Choice",
    "CommandName",
    "Count",
    "FilePath",
    "Folder",
    "Number",
    "Operand",
    "OperatorPattern",
    "OperatorRange",
    "PythonCode",
    "ReferenceSpec",
    "Rest",
    "Size",
    "Where",
    "known_blob",
]

_RANGE = re.compile(r"(\d+)[-,:](\d*)$")


class Candidate(NamedTuple):
    """A completion: the `value` that the typed text is matched with, and what to `insert` on the line."""

    value: str
    insert: str


def _plainly(names: Iterable[str]) -> Iterator[Candidate]:
    return (Candidate(name, quote(name)) for name in names)


class ArgumentType:
    """One kind of argument; `label` stands in usage lines, `about` in help."""

    label = ""
    about = ""
    raw = False  # takes the rest of the line as it stands, quotes and all

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        """The value of a word; raises UsageError for one that does not fit."""
        raise NotImplementedError

    @classmethod
    def accepts(cls, token: Token) -> bool:
        """Whether an optional argument of this type takes the word, or leaves it to the next one."""
        return True

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        """What may stand here, for completion; the caller keeps those that match."""
        return ()


class _Text(str, ArgumentType):
    """Any word."""

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        return cls(token.text)


class Where(_Text):
    """An operator of predict_net: an index, a blob that it writes, its ONNX node, its type or its name."""

    label = "WHERE"
    about = (
        "an operator: its index, a blob that it writes, its ONNX node, its type or its name; blob:, node:, type: and "
        "name: in front say which is meant (blob:17 for a name like an index)"
    )

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        context.session.operator(token.text)  # raises with near names when there is none
        return cls(token.text)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        outputs = dict.fromkeys(name for op in context.net.operators for name in op.outputs if name)
        words = ["blob:" + name if name.isdigit() else name for name in outputs]  # a bare number is an index
        return _plainly(dict.fromkeys(context.operator_types() + words + context.node_names() + context.labels()))


class OperatorPattern(Where):
    """Operators of predict_net: a WHERE, or a pattern of types and blobs."""

    label = "WHERE"
    about = "operators: a WHERE (index, blob, ONNX node, type, name), FIRST-LAST, or a pattern such as 'Conv*'"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        return cls(token.text)


class OperatorType(_Text):
    """An operator type, or a pattern of types."""

    label = "TYPE"
    about = "an operator type such as Conv, or a pattern such as '*Pool'"

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return _plainly(context.operator_types())


class BlobName(_Text):
    """A blob, without version or slice."""

    label = "BLOB"
    about = "the name of a blob; quote it when it holds spaces or quotes"

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return _plainly(context.blob_names())


class BlobPattern(BlobName):
    """Some blobs."""

    label = "PATTERN"
    about = "a part of blob names, or a pattern with * and ? for whole names"


def known_blob(name: str, context: Context) -> str:
    """The name itself; UsageError with near ones where there is no such blob."""
    known = context.blob_names()
    if name not in known:
        raise UsageError("no blob %s" % quote(name), near(name, known) or "`blobs` lists them")
    return name


class BlobRef(ArgumentType):
    """A blob, one version of it, and a part of its values: `conv1@2[0, :5]`."""

    label = "BLOB[@VERSION][SLICE]"
    about = "a blob, perhaps one version of it and a slice: conv1, conv1@2, conv1[0, :5]; an exact name wins"

    def __init__(
        self, name: str, version: Optional[int] = None, index: Optional[Index] = None, index_text: str = ""
    ) -> None:
        self.name = name
        self.version = version
        self.index = index
        self.index_text = index_text

    def __str__(self) -> str:
        return blob_label(self.name, self.version) + self.index_text

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        known = frozenset(context.blob_names())
        name, version, index_text = split_reference(token.text, token.quoted, known)
        known_blob(name, context)
        index = parse_index(index_text) if index_text else None
        return cls(name, version, index, index_text)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        names = context.blob_names()
        name = typed.rpartition("@")[0]
        if name in names:
            labels = (Candidate("%s@%d" % (name, v), blob_label(name, v)) for v in context.session.versions(name))
            return list(_plainly(names)) + list(labels)
        return _plainly(names)


class Count(int, ArgumentType):
    """How many times."""

    label = "N"
    about = "how many, 1 or more"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        if not token.text.isdecimal() or int(token.text) < 1:
            raise UsageError("%s is not a count" % quote(token.text), "give a whole number, 1 or more")
        return cls(int(token.text))


ONCE = Count(1)


class BreakpointNumber(Count):
    """A breakpoint by its number."""

    label = "NUMBER"
    about = "a breakpoint's number, as `info breakpoints` shows it; $ is the last one"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        points = context.session.breakpoints
        if token.text == "$" and points:
            return cls(points[-1].number)
        if not token.text.isdecimal():
            known = ", ".join(str(point.number) for point in points) or "none"
            raise UsageError("%s is no breakpoint's number" % quote(token.text), "there are: %s" % known)
        return cls(int(token.text))

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return _plainly(str(b.number) for b in context.session.breakpoints)


class Number(float, ArgumentType):
    """A number that is not negative."""

    label = "FLOAT"
    about = "a number such as 1e-3"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        try:
            value = cls(token.text)
        except ValueError:
            value = cls("nan")
        if not value >= 0:
            raise UsageError("%s is not a number of 0 or more" % quote(token.text))
        return value


class Size(int, ArgumentType):
    """A number of bytes."""

    label = "SIZE"
    about = "a number of bytes: 64k, 200M, 2G"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        return cls(parse_size(token.text))


class FilePath(_Text):
    """A path in the file system; `~` is the home folder."""

    label = "FILE"
    about = "a path"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        return cls(os.path.expanduser(token.text))

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        found = glob.glob(glob.escape(os.path.expanduser(typed)) + "*")
        home = os.path.expanduser("~")
        for path in sorted(path + os.sep if os.path.isdir(path) else path for path in found):
            shown = "~" + path[len(home) :] if typed.startswith("~") and path.startswith(home) else path
            yield Candidate(shown, quote(shown))


class Folder(FilePath):
    """A folder in the file system."""

    label = "DIR"
    about = "a folder"


class ReferenceSpec(_Text):
    """Where golden values come from."""

    label = "SPEC"
    about = (
        "onnxruntime, torch:FILE.py:factory, python:PATH, backend:onnx_caffe2, a capture, an .npz or a folder of "
        ".npy files; or off"
    )

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return [Candidate(word, word) for word in ("onnxruntime", "torch:", "python:", "backend:", "off")] + list(
            FilePath.candidates(typed, context)
        )


class Operand(ArgumentType):
    """A blob, or a file: a blob of that name wins, `./name` is always a file."""

    label = "FILE|BLOB"
    about = (
        "a .npy or .npz file, a capture, or another blob (of two that are named the same the blob; ./NAME is the file)"
    )

    def __init__(self, blob: Optional[BlobRef], path: Optional[str]) -> None:
        self.blob = blob
        self.path = path

    def __str__(self) -> str:
        return str(self.blob) if self.blob else quote(self.path or "")

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        try:
            return cls(BlobRef.parse(token, context), None)
        except UsageError as error:
            path = os.path.expanduser(token.text)
            if os.path.exists(path):
                return cls(None, path)
            raise UsageError(error.message + " and no such file", error.hint) from None

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return list(BlobRef.candidates(typed, context)) + list(FilePath.candidates(typed, context))


class OperatorRange(ArgumentType):
    """Operators to list: `4` (and those around it), `4-9`, `4-`, `conv1`, `all`."""

    label = "RANGE"
    about = "operators: FIRST-LAST by index, a WHERE (and those around it), or all"
    AROUND = 5

    def __init__(self, start: int, stop: int, at: Optional[int] = None) -> None:
        self.start = start
        self.stop = stop
        self.at = start if at is None else at

    @classmethod
    def around(cls, index: int) -> "OperatorRange":
        """The operators around one."""
        return cls(max(0, index - cls.AROUND), index + 2 * cls.AROUND, index)

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        if token.text == "all" and not token.quoted:
            return cls(0, len(context.net))
        match = _RANGE.match(token.text)
        if match:
            return cls(int(match.group(1)), int(match.group(2)) + 1 if match.group(2) else len(context.net))
        return cls.around(context.session.operator(token.text).index)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return [Candidate("all", "all")] + list(Where.candidates(typed, context))


class Choice(_Text):
    """One of a few words; a subclass names them."""

    choices: Tuple[str, ...] = ()

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        found = [choice for choice in cls.choices if choice.startswith(token.text)]
        if len(found) != 1 and token.text not in cls.choices:
            raise UsageError("%s is none of %s" % (quote(token.text), ", ".join(cls.choices)))
        return cls(token.text if token.text in cls.choices else found[0])

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return _plainly(cls.choices)


class CommandName(_Text):
    """A command of the prompt."""

    label = "COMMAND"
    about = "a command's name or alias"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        return cls(context.interpreter.table.find(token.text).name)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return (Candidate(name, name) for name in context.interpreter.table.names())


class Rest(_Text):
    """The rest of the line as it stands."""

    label = "TEXT"
    about = "the rest of the line"
    raw = True


class PythonCode(Rest):
    """Python: an expression or statements."""

    label = "PYTHON"
    about = "a Python expression or statements; session, np and blob(NAME) are there"
