"""What a sweep does with each input: everything that a job needs to know, and what of it a row depends on."""

import os
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Optional, Tuple

from ..compare.standing import GOLDEN_FOLDER
from ..compare.tolerance import Tolerances
from ..errors import UsageError
from ..importer.inputs import Preprocess
from ..model import BACKENDS
from ..references import maker, open_files

__all__ = ["Plan"]

_PATHS = ("model", "init_net", "predict_net", "against", "names", "runtime", "engine_runtime", "drawn")
_NO_MATTER = _PATHS + ("max_memory",)


@dataclass(frozen=True)
class Plan:
    """How a model is opened, what it is compared with, and how close is close; all of it plain JSON.

    `against` is empty where nothing is compared.  `threads` is how many Caffe2 uses; results may depend on it
    in their last bits, so it never depends on the machine or on the number of jobs.  `drawn` is an .npz with what
    init_net drew at random, the same for every job.  With `channels` rows have the figures of each channel.
    """

    model: Optional[str] = None
    init_net: Optional[str] = None
    predict_net: Optional[str] = None
    importing: str = "faithful"
    backend: str = BACKENDS[0]
    dims: Dict[str, int] = field(default_factory=dict)
    partial: bool = False
    seed: Optional[int] = None
    as_float32: bool = False
    preprocess: Optional[str] = None
    runtime: Optional[str] = None
    timeout: Optional[float] = None
    max_memory: Optional[int] = None
    against: str = ""
    names: Optional[str] = None
    engine_runtime: Optional[str] = None
    go_on: bool = False
    rules: Tuple[str, ...] = ()
    rtol: Optional[float] = None
    atol: Optional[float] = None
    threads: int = 1
    channels: bool = False
    drawn: Optional[str] = None

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> "Plan":
        """The plan that `to_json` wrote."""
        return cls(**dict(data, rules=tuple(data["rules"])))

    def matters(self) -> Dict[str, Any]:
        """The options that a row depends on; files are known by their contents, not by their places."""
        found = {key: value for key, value in asdict(self).items() if key not in _NO_MATTER}
        return dict(found, rules=list(self.rules), against=self.kind)

    @property
    def kind(self) -> str:
        """What kind of reference it is: onnxruntime, torch:factory, files and so on."""
        word, _, rest = self.against.partition(":")
        if not self.against or os.path.exists(self.against):
            return "files" if self.against else ""
        if word == "backend":
            return self.against
        return "%s:%s" % (word, rest.rpartition(":")[2]) if word in ("torch", "keras", "keras-nchw") else word

    def checked(self) -> "Plan":
        """The same with absolute paths, so that it means the same everywhere; UsageError for what cannot be read."""
        self.tolerances()
        self.preprocessing()
        if self.channels and self.against:
            raise UsageError("channels are looked at where nothing is compared", "leave out --channels or --against")
        made = not self.against or maker(self.against, self.model or "", sys.executable) is not None
        if not made and not os.path.isdir(self.against):
            open_files(self.against)  # says what is wrong with it
            raise UsageError("%s holds the golden values of one input" % self.against, GOLDEN_FOLDER)
        paths = {key: getattr(self, key) for key in ("model", "init_net", "predict_net", "names")}
        found = {key: os.path.abspath(path) for key, path in paths.items() if path}
        specs = {key: _absolute(getattr(self, key)) for key in ("against", "runtime", "engine_runtime")}
        return replace(self, **specs, **found)

    def tolerances(self) -> Tolerances:
        """How close is close."""
        return Tolerances.parse(*self.rules, rtol=self.rtol, atol=self.atol)

    def preprocessing(self) -> Optional[Preprocess]:
        """How images become tensors."""
        return Preprocess.parse(self.preprocess) if self.preprocess else None

    def model_words(self) -> List[str]:
        """The files to name the model by."""
        return [path for path in (self.model, self.init_net, self.predict_net) if path]


def _absolute(spec: Optional[str]) -> Any:
    """A reference or a runtime whose path, if it has one, is absolute."""
    if not spec or os.path.exists(spec):
        return os.path.abspath(spec) if spec else spec
    kind, colon, rest = spec.partition(":")
    path = rest.rpartition(":")[0] if kind in ("torch", "keras", "keras-nchw") and ":" in rest else rest
    if colon and path and os.path.exists(path):
        return kind + colon + os.path.abspath(path) + rest[len(path) :]
    return spec
