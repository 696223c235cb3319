"""Keeping every blob, against stepping and one plain write of as many bytes, and against a script of five calls.

All sides run a net that has run before, and write into files that are new.
"""

import os
import tempfile
from typing import Iterator, List

from c2step.stepper import Keep

from .setting import Setting
from .stepping import name_of
from .table import Row
from .timing import alternate, quotient, timed

__all__ = ["by_script", "bytes_in", "dump", "written"]


def dump(setting: Setting) -> List[Row]:
    """Every output blob of ResNet-50 and MobileNetV2 kept."""
    return [row for name in ("resnet50", "mobilenet_v2") for row in _dump(setting, name)]


def _dump(setting: Setting, name: str) -> List[Row]:
    model = setting.model(name)
    with setting.temporary() as folder, model.session() as plain:
        loaded = setting.load(model, plain)
        kept, script = os.path.join(folder, "kept"), os.path.join(folder, "script")
        with model.session(Keep(kept, on_full="stop")) as keeping:

            def ours() -> float:
                _empty(kept)
                return timed(keeping.run)()

            os.mkdir(script)
            keeping.run()
            ours()
            everything = bytes_in(kept)
            path = os.path.join(folder, "all")
            sides = {
                "ours": ours,
                "step and write": lambda: timed(plain.run)() + written(path, everything),
                "script": lambda: by_script(setting, loaded, script),
            }
            seconds = alternate(sides, setting.rounds(15), 1)
            setting.check_same(model, keeping)
    what = "dump of %s, every blob, %.0f MB" % (name_of(name), len(everything) / 1e6)
    return [
        Row("dump", what, "stepping, and one plain write of as many bytes", "x", 1.3,
            quotient(seconds["ours"], seconds["step and write"])),
        Row("dump", what, "RunOperatorOnce, FetchBlob, np.save, np.mean, np.std", "faster", 2.0,
            quotient(seconds["script"], seconds["ours"])),
    ]  # fmt: skip


def _files(folder: str) -> Iterator[str]:
    """The arrays in a folder and those inside it."""
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in names if name.endswith(".npy"))


def _empty(folder: str) -> None:
    """Take the bytes of the files of former rounds, not the files: making new ones takes ext4 long after that."""
    for path in _files(folder):
        os.truncate(path, 0)


def by_script(setting: Setting, loaded: str, folder: str) -> float:
    """The seconds of a script that keeps every output blob, in a new folder inside this one."""
    _empty(folder)
    return setting.bare.seconds("dump", name=loaded, folder=tempfile.mkdtemp(dir=folder))


def bytes_in(folder: str) -> bytes:
    """The bytes of all arrays in a folder."""
    found = []
    for path in _files(folder):
        with open(path, "rb") as file:
            found.append(file.read())
    return b"".join(found)


def written(path: str, everything: bytes) -> float:
    """The seconds of one plain write into a new file."""
    if os.path.exists(path):
        os.remove(path)

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            file.write(everything)

    return timed(write)()
