"""List every Caffe2 that is at hand, and how to get the others.

c2step runtimes
c2step runtimes --json

The first column is what --runtime takes: `default` is what is used without it, a version alone is the
environment that scripts/make-runtime made, docker:IMAGE an image that scripts/docker-build made.
"""

import argparse
import json
from typing import List

from ..errors import ExitStatus
from ..model import BACKENDS
from ..render import table
from ..workspace.runtimes import Probe, environments, images, obtainable, probe

__all__ = ["add_arguments", "run"]

_HOW = {"environment": "scripts/make-runtime VERSION", "image": "scripts/docker-build VERSION"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step runtimes`."""
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="N", help="wait so long for each (default 30)")


def run(options: argparse.Namespace) -> int:
    """Ask each runtime and print; status 6 where none runs operators."""
    found, docker = images()
    probes = [probe(name, options.seconds) for name in environments() + found]
    others = obtainable(probes)
    if options.json:
        rows = [each.to_json() for each in probes]
        print(json.dumps({"runtimes": rows, "docker": docker, "obtainable": others, "how": _HOW}, indent=1))
    else:
        print("\n".join(_table(probes)))
        for line in ([docker] if docker else []) + _others(others):
            print(line)
    return ExitStatus.OK if any(each.works for each in probes) else ExitStatus.RUNTIME


def _table(probes: List[Probe]) -> List[str]:
    rows = [["runtime", "torch", "Python", "onnx", "operators", "backends", "missing"]]
    for each in probes:
        words = [str(each.versions.get(key, "-")) for key in ("torch", "python", "onnx", "operators")]
        rows.append([each.name] + words + [_backends(each), each.missing])
    return table(rows, right=(4,))


def _backends(found: Probe) -> str:
    """The importers of ONNX models that it has."""
    packages = dict(zip(BACKENDS, ("onnx", "onnx_caffe2")))
    return ", ".join(name for name in BACKENDS if packages[name] in found.versions) or "-"


def _others(versions: List[str]) -> List[str]:
    if not versions:
        return []
    return [
        "not here: %s" % " ".join(versions),
        "%s makes one in .envs, %s an image" % (_HOW["environment"], _HOW["image"]),
    ]
