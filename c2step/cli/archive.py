"""Keep golden values for every later upgrade: one folder with inputs, versions, a manifest and hashes.

c2step reference onnxruntime model.onnx --input all.npz -o golden/
c2step archive golden/ --model model.onnx -o archive/
c2step archive --check archive/
c2step blame model.onnx --input all.npz --against archive/

Several captures become cases, named after their folders.  A capture that is not whole (a run that failed, a file that
cannot be read, a journal cut short) is not taken.  An archive is checked whenever it is opened.
"""

import argparse
import os
from typing import Dict, List

from ..errors import ExitStatus, UsageError
from ..references.archive import Archive, make_archive, open_archive
from .options import bytes_text

__all__ = ["add_arguments", "run"]

_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step archive`."""
    parser.add_argument("sources", nargs="+", metavar="CAPTURE", help="captures to keep, or with --check an archive")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="the archive; a new folder")
    parser.add_argument("--model", action="append", default=[], metavar="FILE", help="a file of the model, kept too")
    parser.add_argument("--note", default="", help="a line that says what it is for")
    parser.add_argument("--check", action="store_true", help="check an archive and say what it holds")


def run(options: argparse.Namespace) -> int:
    """Make or check."""
    if options.check:
        for path in options.sources:
            archive = open_archive(path)
            archive.check()
            _say(archive)
        return ExitStatus.OK
    if not options.output:
        raise UsageError("where to?", "give -o FOLDER, or --check")
    _say(make_archive(options.output, _cases(options.sources), options.model, options.note))
    return ExitStatus.OK


def _cases(sources: List[str]) -> Dict[str, str]:
    cases: Dict[str, str] = {}
    for source in sources:
        name = os.path.basename(os.path.abspath(source))
        if name in cases:
            raise UsageError("two captures are called %s" % name, "a case is named after its folder")
        cases[name] = source
    return cases


def _say(archive: Archive) -> None:
    size = sum(file["bytes"] for file in archive.manifest["files"].values())
    print("%s: whole, %d files, %s" % (archive.path, len(archive.manifest["files"]), bytes_text(size)))
    for name, case in archive.manifest["cases"].items():
        maker = case.get("engine") or case.get("kind")
        versions = ", ".join("%s %s" % item for item in sorted((case.get("versions") or {}).items()))
        print("  %s: %d values by %s (%s)" % (name, case["values"], maker, versions))
        lost = case.get("missing") or {}
        for value, reason in list(lost.items())[:_SHOWN]:
            print("    no value for %s: %s" % (value, reason))
        if len(lost) > _SHOWN:
            print("    no value for %d more" % (len(lost) - _SHOWN))
