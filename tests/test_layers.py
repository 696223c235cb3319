"""The arrows between modules go one way, each outside library has its owner, and the front loads no Caffe2.

The imports are read from the sources, those inside functions too: an arrow is an arrow.
"""

import ast
import importlib.util
import os
import subprocess
import sys
from typing import Iterable, Iterator, List, NamedTuple, Tuple

import pytest

from shared_material import CHECKOUT

PACKAGE = os.path.join(CHECKOUT, "c2step")

# Each part may import from itself and from the parts before it.
LAYERS = (
    "errors",
    "sizes",
    "handlers",
    "leftovers",
    "html",
    "net",
    "progress",
    "blob",
    "npy",
    "hooks",
    "digests",
    "model",
    "capture",
    "conditions",
    "importer",
    "workspace",
    "wrap",
    "unsummarised",
    "history",
    "journal",
    "breakpoints",
    "recording",
    "wraps",
    "intake",
    "timeline",
    "travel",
    "facts",
    "calling",
    "patching",
    "running",
    "snapshot",
    "stepper",
    "nested",
    "observing",
    "resuming",
    "scripting",
    "launch",
    "budget",
    "references",
    "compare",
    "reproducing",
    "render",
    "pictures",
    "report",
    "export",
    "analyses",
    "sweeping",
    "repl",
    "serve",
    "cli",
)

# The modules that run operators in Caffe2, or see others run them.
CAFFE2_SIDE = (
    "workspace/local.py",
    "workspace/benching.py",
    "workspace/reader.py",
    "workspace/instrument.py",
    "workspace/failing.py",
    "workspace/unnamed.py",
    "workspace/saving.py",
    "workspace/unrolling.py",
    "workspace/nesting.py",
    "workspace/wrapping.py",
    "workspace/shadow.py",
    "workspace/unimported.py",
)

# Which parts may import an outside library, as prefixes of the module's path; numpy may be used anywhere.
OWNERS = {
    "caffe2": ("importer/",) + CAFFE2_SIDE,
    "distributed": ("sweeping/cluster.py",),
    "google": ("importer/",),
    "matplotlib": ("pictures/plots.py",),
    "tensorboardX": ("export/tensorboard.py",),
    "onnx": ("importer/", "references/engines/"),
    "onnx_caffe2": ("importer/onnx_caffe2.py",),
    "onnxruntime": ("references/engines/",),
    "PIL": ("importer/inputs.py",),
    "keras": ("references/engines/",),
    "openvino": ("references/engines/",),
    "pandas": ("export/tables.py",),
    "prompt_toolkit": ("repl/",),
    "torch": ("workspace/unimported.py", "workspace/reader.py", "references/engines/"),
}
HEAVY = ("caffe2", "google.protobuf", "onnx", "onnxruntime", "torch")

# Whole modules that only the worker, or a reference's own process, loads.
WORKER_SIDE = CAFFE2_SIDE + (
    "importer/",
    "references/engines/",
    "workspace/worker.py",
    "workspace/judging.py",
    "workspace/recorder.py",
)


class Import(NamedTuple):
    """One import: by which file, of which dotted module, on which line."""

    path: str
    module: str
    line: int

    def __str__(self) -> str:
        return "c2step/%s:%d imports %s" % self.place

    @property
    def place(self) -> Tuple[str, int, str]:
        return self.path, self.line, self.module


def sources() -> List[str]:
    """The paths of all modules inside the package, with slashes."""
    found = []
    for parent, _, names in os.walk(PACKAGE):
        found += [os.path.join(parent, name) for name in names if name.endswith(".py")]
    return sorted(os.path.relpath(path, PACKAGE).replace(os.sep, "/") for path in found)


def imports() -> Iterator[Import]:
    """Every import in the package."""
    for path in sources():
        with open(os.path.join(PACKAGE, path), encoding="utf-8") as stream:
            tree = ast.parse(stream.read())
        for node in ast.walk(tree):
            for module in modules_of(node, path):
                yield Import(path, module, node.lineno)


def modules_of(node: ast.AST, path: str) -> List[str]:
    """The full dotted names that a statement imports; `from c2step import x` is c2step.x."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    module = node.module or ""
    if node.level:
        parents = ["c2step"] + path.split("/")[:-1]
        module = ".".join(parents[: len(parents) - node.level + 1] + ([module] if module else []))
    return ["c2step.%s" % alias.name for alias in node.names] if module == "c2step" else [module]


def part(path: str) -> str:
    """The layer that a module belongs to."""
    return path.split("/")[0].replace(".py", "")


OURS = [found for found in imports() if found.module.split(".")[0] == "c2step"]
OUTSIDE = [found for found in imports() if found.module.split(".")[0] != "c2step"]


def test_every_module_has_a_layer():
    parts = {part(path) for path in sources()} - {"__init__", "__main__"}
    assert parts <= set(LAYERS), "add to LAYERS, and to the design: %s" % sorted(parts - set(LAYERS))


def test_arrows_point_one_way():
    def wrong(found: Import) -> bool:
        target = (found.module.split(".") + [""])[1]
        here = part(found.path)
        if here in ("__init__", "__main__") or target in (here, "__version__"):
            return False
        return target not in LAYERS or LAYERS.index(target) > LAYERS.index(here)

    assert "\n".join(str(found) for found in OURS if wrong(found)) == ""


def is_outside(module: str) -> bool:
    """Whether a module comes neither with Python nor from here."""
    if module in sys.builtin_module_names:
        return False
    spec = importlib.util.find_spec(module)
    return spec is None or "site-packages" in (spec.origin or "site-packages")


def test_each_outside_library_has_its_owner():
    def wrong(found: Import) -> bool:
        library = found.module.split(".")[0]
        if library == "numpy" or not is_outside(library):
            return False
        return not found.path.startswith(OWNERS.get(library, ("none owns it",)))

    assert "\n".join(str(found) for found in OUTSIDE if wrong(found)) == ""


def output(code: str, python: str = sys.executable) -> str:
    """What a fresh interpreter prints that runs `code` in the checkout; it must not fail."""
    done = subprocess.run(
        [python, "-c", code],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def heavy_after(code: str) -> List[str]:
    """Which heavy libraries a fresh interpreter has loaded after running `code`."""
    tail = "\nimport sys\nprint('\\nLOADED', *[name for name in %r if name in sys.modules])" % (HEAVY,)
    return output(code + tail).split("LOADED")[-1].split()


def importing(paths: Iterable[str]) -> str:
    """The statements that import these modules."""
    names = [path[: -len(".py")].replace("/__init__", "").replace("/", ".") for path in paths]
    return "\n".join("import " + ("c2step" if name == "__init__" else "c2step." + name) for name in names)


MODULES = [path for path in sources() if not path.endswith("__main__.py")]
FRONT = [path for path in MODULES if not path.startswith(WORKER_SIDE)]


def test_the_front_loads_nothing_heavy():
    assert heavy_after(importing(FRONT)) == []


def test_the_front_loads_without_caffe2_on_a_newer_interpreter(front_only):
    output(importing(FRONT), front_only)


def test_everything_loads_on_the_oldest_interpreter(older_caffe2):
    # OpenVINO and Keras are in an environment of their own, on newer interpreters
    frameworks = ("references/engines/keras_engine.py", "references/engines/openvino_engine.py")
    output(importing([path for path in MODULES if path not in frameworks]), older_caffe2)


@pytest.mark.parametrize(
    "code",
    [
        "import c2step",
        "import sys; sys.argv = ['c2step', '--help']\nfrom c2step.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code",
    ],
    ids=["import c2step", "c2step --help"],
)
def test_starting_loads_nothing_heavy(code):
    assert heavy_after(code) == []
