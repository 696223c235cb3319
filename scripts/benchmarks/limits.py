"""How near a bar could be come to: what no debugger in Python can leave out, alone, against the same other side."""

import os
from typing import List

import numpy as np

from c2step.compare.metrics import measure
from c2step.stepper import Keep

from .dumping import by_script, bytes_in, written
from .setting import Setting
from .stepping import name_of
from .table import Row
from .timing import added, alternate, quotient, timed

__all__ = ["limits"]

_NETS = ("resnet50", "mobilenet_v2", "squeezenet1_1")


def limits(setting: Setting) -> List[Row]:
    """What stepping, a step, a dump and blame cannot leave out, and nothing else, against the same other sides."""
    rows = [_stepping(setting, name) for name in _NETS] + [_exchange(setting)]
    return rows + [_dump(setting, name) for name in _NETS[:2]] + [_blame(setting, _NETS[1])]


def _loaded(setting: Setting, name: str) -> str:
    model = setting.model(name)
    with model.session() as session:
        return setting.load(model, session)


def _stepping(setting: Setting, name: str) -> Row:
    loaded = _loaded(setting, name)
    sides = {side: lambda do=do: setting.bare.seconds(do, name=loaded) for side, do in
             (("least", "stepped"), ("theirs", "run"))}  # fmt: skip
    seconds = alternate(sides, setting.rounds(15), 2)
    what = "operators of %s one by one, each output summarised, no second process" % name_of(name)
    return Row("limits", what, "`RunNet`", "x", None, quotient(seconds["least"], seconds["theirs"]))


def _exchange(setting: Setting) -> Row:
    model = setting.chain(100)
    with model.session() as session:
        loaded = setting.load(model, session)
    bare = setting.bare
    sides = {
        "least": timed(lambda: bare.ask("once", name=loaded, index=0)),
        "theirs": lambda: bare.seconds("once", name=loaded, index=0, times=20),
    }
    seconds = alternate(sides, setting.rounds(90), 5)
    what = "`RunOperatorOnce` in another process, asked for by a line and answered by a line"
    found = added([s * 1e6 for s in seconds["least"]], [s * 1e6 for s in seconds["theirs"]])
    return Row("limits", what, "`RunOperatorOnce`, added to it", "us", None, found)


def _dump(setting: Setting, name: str) -> Row:
    model = setting.model(name)
    with setting.temporary() as folder:
        kept, script, path = [os.path.join(folder, part) for part in ("kept", "script", "all")]
        os.mkdir(script)
        with model.session(Keep(kept, on_full="stop")) as session:
            loaded = setting.load(model, session)
            session.run()
        everything = bytes_in(kept)
        sides = {
            "least": lambda: setting.bare.seconds("every", name=loaded) + written(path, everything),
            "theirs": lambda: by_script(setting, loaded, script),
        }
        seconds = alternate(sides, setting.rounds(15), 1)
    what = "`RunOperatorOnce` of every operator of %s, and one plain write" % name_of(name)
    against = "RunOperatorOnce, FetchBlob, np.save, np.mean, np.std"
    return Row("limits", what, against, "faster", None, quotient(seconds["theirs"], seconds["least"]))


def _blame(setting: Setting, name: str) -> Row:
    model = setting.model(name)
    with model.session(Keep()) as session:
        loaded = setting.load(model, session)
        session.run()
        values = [session.fetch(blob).array for step in session.steps for blob in step.operator.outputs]
    pairs = [(array, array + np.float32(1e-7)) for array in values if array is not None]  # equal ones take less time
    sides = {
        "least": timed(lambda: [measure(*pair) for pair in pairs * 2]),
        "theirs": lambda: setting.bare.seconds("both", name=loaded, path=model.path, inputs=model.inputs),
    }
    seconds = alternate(sides, setting.rounds(9), 1)
    what = "every value of %s compared twice, nothing run" % name_of(name)
    against = "`RunNet`, and onnxruntime with every value exposed"
    return Row("limits", what, against, "x", None, quotient(seconds["least"], seconds["theirs"]))
