"""Tell what kind of model files a path holds, from their content and not from their names.

No protobuf library is needed: the top-level fields of the three formats differ.  ModelProto has
ir_version as field 1 (a number) where NetDef has its name (a string).  A parser would take either
for the other without complaint.
"""

import atexit
import os
import shutil
import tempfile
import zipfile
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..errors import ModelError
from .wire import fields, opened

__all__ = ["ModelFiles", "find_model", "sniff"]

ONNX, NET, TEXT_NET, EMPTY, UNKNOWN = "onnx", "net", "text net", "empty", "unknown"


class ModelFiles(NamedTuple):
    """Either `onnx`, or `predict_net` with an optional `init_net`; `note` says what was passed over.

    `weights` are the files with weights beside an ONNX model, known once it is read.
    """

    onnx: Optional[str] = None
    init_net: Optional[str] = None
    predict_net: Optional[str] = None
    note: str = ""
    weights: Tuple[str, ...] = ()

    def paths(self) -> Dict[str, str]:
        """The files by their role."""
        return {
            role: path
            for role, path in (("onnx", self.onnx), ("init_net", self.init_net), ("predict_net", self.predict_net))
            if path
        }


def sniff(path: str) -> str:
    """What a file holds: "onnx", "net", "text net", "empty" or "unknown"; ModelError if it is cut short."""
    try:
        with opened(path) as data:
            if not data:
                return EMPTY
            if _looks_like_text(data[:4096]):
                return TEXT_NET
            return _sniff_binary(path, data)
    except OSError as error:
        raise ModelError("cannot read %s: %s" % (path, error.strerror or error)) from error


def _sniff_binary(path: str, data: Any) -> str:
    seen: Dict[int, int] = {}
    try:
        for field in fields(data):
            seen.setdefault(field.number, field.wire)
    except EOFError:
        kind = _kind_of(seen)
        if kind == UNKNOWN:
            return UNKNOWN
        raise ModelError(
            "%s is cut short: its last field ends after the file does" % path,
            "copy the file again; %d bytes are here" % len(data),
        ) from None
    except ValueError:
        return UNKNOWN
    return _kind_of(seen)


def _kind_of(seen: Dict[int, int]) -> str:
    if seen.get(1) == 0 or (1 not in seen and seen.get(7) == 2 and seen.get(8) == 2 and 2 not in seen):
        return ONNX
    if seen and all(number <= 16 for number in seen) and (seen.get(1) == 2 or seen.get(2) == 2):
        return NET
    return UNKNOWN


def _looks_like_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        text = head.decode("utf-8-sig", "ignore").lstrip()
    except UnicodeDecodeError:
        return False
    words = (
        "name:",
        "op ",
        "op{",
        "op:",
        "type:",
        "external_input",
        "external_output",
        "device_option",
        "arg ",
        "arg{",
        "#",
    )
    return text.startswith(words)


def find_model(
    model: Optional[str], init_net: Optional[str], predict_net: Optional[str], unpack_in: Optional[str] = None
) -> ModelFiles:
    """The files to open: an ONNX file, a pair of nets, or a folder or zip that holds them.

    What a zip holds is written into the folder `unpack_in`, whose owner takes it away; without one it goes
    away when this interpreter ends.  Raises ModelError where a file is missing, empty, cut short, of the
    other kind, or where a folder holds none or several.
    """
    if predict_net:
        return _pair(init_net, predict_net)
    if init_net:
        raise ModelError("init_net %s is given without a predict_net" % init_net, "add --predict-net FILE")
    if not model:
        raise ModelError("no model is given", "name an .onnx file, a folder, or --init-net and --predict-net")
    if os.path.isdir(model):
        return _folder(model)
    if zipfile.is_zipfile(model):
        return _folder(_unzip(model, unpack_in), model)
    kind = sniff(model)
    if kind == ONNX:
        return ModelFiles(onnx=model)
    if kind in (NET, TEXT_NET):
        return _beside(model)
    raise ModelError(
        "%s is %s" % (model, _not_a_model(kind)),
        "an .onnx file, a Caffe2 predict_net (.pb, .pbtxt), or a folder or zip of them is wanted",
    )


def _not_a_model(kind: str) -> str:
    return "an empty file" if kind == EMPTY else "neither an ONNX model nor a Caffe2 net"


def _pair(init_net: Optional[str], predict_net: str) -> ModelFiles:
    for role, path in (("init_net", init_net), ("predict_net", predict_net)):
        if not path:
            continue
        kind = sniff(path)
        if kind == ONNX:
            raise ModelError(
                "%s %s is an ONNX model, not a Caffe2 net" % (role, path), "open it with: c2step %s" % path
            )
        if kind not in (NET, TEXT_NET):
            raise ModelError("%s %s is %s" % (role, path, _not_a_model(kind)))
    return ModelFiles(init_net=init_net, predict_net=predict_net)


def _beside(predict_net: str) -> ModelFiles:
    folder, name = os.path.split(predict_net)
    if "init" in name and "predict" not in name:
        raise ModelError(
            "%s looks like an init_net" % predict_net, "give both: --init-net %s --predict-net FILE" % predict_net
        )
    candidates = [name.replace("predict", "init", 1), name.replace("predict_net", "init_net", 1)]
    for other in candidates + [os.path.splitext(c)[0] + ext for c in candidates for ext in (".pb", ".pbtxt")]:
        path = os.path.join(folder, other)
        if other != name and os.path.exists(path):
            return ModelFiles(init_net=path, predict_net=predict_net)
    return ModelFiles(predict_net=predict_net)


def _folder(folder: str, shown: str = "") -> ModelFiles:
    shown = shown or folder
    kinds: Dict[str, List[str]] = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and name.endswith((".onnx", ".pb", ".pbtxt", ".prototxt")):
            kinds.setdefault(sniff(path), []).append(path)
    nets = _nets_of_folder(kinds.get(NET, []) + kinds.get(TEXT_NET, []))
    models = kinds.get(ONNX, [])
    named = [path for path in models if path.endswith(".onnx")] or models
    if nets:
        beside = ", ".join(os.path.basename(path) for path in models)
        return nets._replace(note="the folder's Caffe2 nets are opened, not %s beside them" % beside if beside else "")
    if len(named) == 1:
        return ModelFiles(onnx=named[0])
    if not named:
        raise ModelError(
            "%s holds no ONNX model and no predict_net" % shown,
            "it has: %s" % (", ".join(sorted(os.listdir(folder))[:12]) or "nothing"),
        )
    raise ModelError(
        "%s holds several models: %s" % (shown, ", ".join(os.path.basename(p) for p in named)),
        "name the one that is meant",
    )


def _nets_of_folder(paths: List[str]) -> Optional[ModelFiles]:
    def pick(word: str) -> Optional[str]:
        found = [p for p in paths if word in os.path.basename(p)]
        exact = [p for p in found if os.path.splitext(os.path.basename(p))[0] == word]
        ranked = exact or found
        binary = [p for p in ranked if p.endswith(".pb")]
        return next(iter(binary or ranked), None)

    predict = pick("predict_net") or pick("predict")
    if predict is None:
        rest = [p for p in paths if "init" not in os.path.basename(p)]
        predict = rest[0] if len(rest) == 1 else None
    return ModelFiles(init_net=pick("init_net") or pick("init"), predict_net=predict) if predict else None


def _unzip(path: str, unpack_in: Optional[str]) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_names(path, archive)
            folder = _unpacked(path, archive, unpack_in)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise ModelError("cannot unpack %s: %s" % (path, error), "unpack it yourself and name the folder") from error
    except OSError as error:
        raise ModelError("cannot unpack %s: %s" % (path, error.strerror or error)) from error
    entries = os.listdir(folder)
    inner = os.path.join(folder, entries[0]) if len(entries) == 1 else folder
    return inner if os.path.isdir(inner) else folder


def _check_names(path: str, archive: zipfile.ZipFile) -> None:
    for info in archive.infolist():
        parts = info.filename.replace("\\", "/").split("/")
        if ".." in parts or os.path.isabs(info.filename):
            raise ModelError("%s holds a path outside itself: %s" % (path, info.filename))


def _unpacked(path: str, archive: zipfile.ZipFile, unpack_in: Optional[str]) -> str:
    """The folder with the zip's files: made once for one zip, however often the model is opened."""
    if unpack_in is None:
        unpack_in = tempfile.mkdtemp(prefix="c2step-zip-")
        atexit.register(shutil.rmtree, unpack_in, True)
    state = os.stat(path)
    known = "%s %d %d" % (os.path.abspath(path), state.st_size, state.st_mtime_ns)
    folder = os.path.join(unpack_in, "zip-%08x" % zlib.crc32(known.encode("utf-8", "surrogateescape")))
    if not os.path.isdir(folder):
        part = tempfile.mkdtemp(dir=unpack_in)
        try:
            archive.extractall(part)
            os.rename(part, folder)
        except BaseException:
            shutil.rmtree(part, True)
            raise
    return folder
