"""Keeping every blob, against stepping and one plain write of as many bytes, and against a script of five calls."""

import os
import shutil
from typing import List

from c2step.stepper import Keep

from .setting import Setting
from .stepping import name_of
from .table import Row
from .timing import alternate, quotient, timed

__all__ = ["dump"]


def dump(setting: Setting) -> List[Row]:
    """Every output blob of ResNet-50 and MobileNetV2 kept."""
    return [row for name in ("resnet50", "mobilenet_v2") for row in _dump(setting, name)]


def _dump(setting: Setting, name: str) -> List[Row]:
    model = setting.model(name)
    with setting.temporary() as folder, model.session() as plain, model.session() as keeping:
        loaded = setting.load(model, plain)
        kept, script = os.path.join(folder, "kept"), os.path.join(folder, "script")

        def ours() -> float:
            shutil.rmtree(kept, ignore_errors=True)
            keeping.restart(Keep(kept, on_full="stop"))
            return timed(keeping.cont)()

        def theirs() -> float:
            shutil.rmtree(script, ignore_errors=True)
            os.mkdir(script)
            return setting.bare.seconds("dump", name=loaded, folder=script)

        ours()
        everything = b"".join(_bytes(os.path.join(kept, file)) for file in os.listdir(kept))
        path = os.path.join(folder, "all")
        sides = {
            "ours": ours,
            "step and write": lambda: timed(plain.run)() + _written(path, everything),
            "script": theirs,
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


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _written(path: str, everything: bytes) -> float:
    """The seconds of one plain write into a new file."""
    if os.path.exists(path):
        os.remove(path)

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            file.write(everything)

    return timed(write)()
