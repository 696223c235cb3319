"""What a measurement may use: models, the other sides, temporary folders, and how often to repeat."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List

import numpy as np

from c2step.launch import open_session
from c2step.stepper import Keep, Session

from .peer import Peer

__all__ = ["NOTHING_SAVED", "Model", "Setting"]

NOTHING_SAVED = Keep(level="stats")


class Model:
    """A model and its inputs as files."""

    def __init__(self, name: str, path: str, inputs: str) -> None:
        self.name, self.path, self.inputs = name, path, inputs

    def arrays(self) -> Dict[str, np.ndarray]:
        """The inputs."""
        return dict(np.load(self.inputs))

    def session(self, keep: Keep = NOTHING_SAVED, **options: Any) -> Session:
        """The model in c2step, its operators in a worker, standing before the first one."""
        return open_session(self.path, self.arrays(), keep=keep, **options)


class Setting:
    """`exporter` and `polygraphy` are interpreters, empty where there is none; `models` the folder of the exports."""

    def __init__(self, folder: str, models: str, exporter: str, polygraphy: str, quick: bool) -> None:
        self.folder, self.quick, self.polygraphy = folder, quick, polygraphy
        self._models, self._exporter = models, exporter
        self._bare: List[Peer] = []
        self._loaded: Dict[str, Model] = {}

    def rounds(self, number: int) -> int:
        """How many rounds to measure: a third of them where it has to be quick."""
        return max(3, number // 3) if self.quick else number

    @contextmanager
    def temporary(self) -> Iterator[str]:
        """A folder that goes away."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield folder

    # -- models -------------------------------------------------------------------------------

    def model(self, name: str) -> Model:
        """An exported model, made where it is missing."""
        found = Model(name, os.path.join(self._models, name + "-op9.onnx"), os.path.join(self._models, name + ".npz"))
        if not (os.path.exists(found.path) and os.path.exists(found.inputs)):
            if not self._exporter:
                raise RuntimeError("%s is missing, and there is no interpreter with torchvision" % found.path)
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exporting.py")
            with self.temporary() as made:
                subprocess.run([self._exporter, "-W", "ignore", script, made, name], check=True)
                for path in (found.path, found.inputs):
                    os.replace(os.path.join(made, os.path.basename(path)), path)
        return found

    def chain(self, count: int) -> Model:
        """A net of so many tiny operators."""
        folder = os.path.join(self.folder, "chain%d" % count)
        if not os.path.isdir(folder):
            os.mkdir(folder)
            self.bare.ask("write_chain", folder=folder, count=count)
        return Model("chain%d" % count, folder, os.path.join(folder, "input.npz"))

    # -- the other side -----------------------------------------------------------------------

    @property
    def bare(self) -> Peer:
        """Caffe2 without c2step, in the interpreter in which c2step's worker runs too."""
        if not self._bare:
            self._bare.append(Peer(sys.executable, "bare_caffe2"))
        return self._bare[0]

    def load(self, model: Model, session: Session) -> str:
        """Load the nets that a session runs into Caffe2 without c2step; returns the net's name there."""
        if model.name not in self._loaded:
            folder = model.path
            if not os.path.isdir(folder):
                folder = os.path.join(self.folder, model.name)
                session.protected(lambda: session.workspace.convert(folder))
            self.bare.ask("load", name=model.name, folder=folder, inputs=model.inputs)
            self._loaded[model.name] = model
        return model.name

    def check_same(self, model: Model, session: Session) -> None:
        """Make sure that every output is the same bit for bit on both sides, and that every step was summarised."""
        with self.temporary() as folder:
            for name in session.model.output_names():
                path = os.path.join(folder, "theirs.npy")
                self.bare.ask("fetch", name=model.name, blob=name, path=path)
                ours = session.fetch(name).array
                if ours is None or ours.tobytes() != np.load(path).tobytes():
                    raise AssertionError("%s: %s is not what RunNet gives" % (model.name, name))
        for step in session.steps:
            if any(out.kind == "tensor" and out.summary.mean is None and out.summary.size for out in step.outputs):
                raise AssertionError("%s: %s has no summary" % (model.name, step.operator))

    def close(self) -> None:
        """End the other sides."""
        while self._bare:
            self._bare.pop().close()
