"""Makes the sample models: `python scripts/samples [-o FOLDER] [--if-needed]`.

Every run gives the same bytes.  FOLDER/manifest.json says from which sources the models were made and
what each file's SHA-256 is.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import sys
from typing import Callable, Dict, Iterator, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = "manifest.json"


def main(arguments: Optional[List[str]] = None) -> int:
    """Make the models; the whole folder appears at once, so that a stopped run leaves none half-made."""
    parser = argparse.ArgumentParser(prog="make_models", description="Train the sample models and write them.")
    parser.add_argument("-o", "--output", default=os.path.join(HERE, os.pardir, os.pardir, "models"))
    parser.add_argument("--if-needed", action="store_true", help="do nothing where they are there and up to date")
    options = parser.parse_args(arguments)
    folder = os.path.abspath(options.output)
    with open(os.path.join(HERE, "__main__.py")) as lock:  # two test processes may want them at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (options.if_needed and up_to_date(folder)):
            _replace(folder, write_all)
    return 0


def up_to_date(folder: str) -> bool:
    """Whether every file is there with the bytes that the present sources gave."""
    try:
        with open(os.path.join(folder, MANIFEST)) as stream:
            manifest = json.load(stream)
        files: Dict[str, str] = manifest["files"]
        return bool(manifest["recipe"] == recipe()) and all(
            _sha256(os.path.join(folder, name)) == digest for name, digest in files.items()
        )
    except (OSError, ValueError, KeyError):
        return False


def recipe() -> str:
    """One hash over the sources that make the models."""
    sources = [name for name in sorted(os.listdir(HERE)) if name.endswith(".py")]
    return hashlib.sha256("".join(_sha256(os.path.join(HERE, name)) for name in sources).encode()).hexdigest()


def write_all(folder: str) -> None:
    """Train and write every model into `folder`."""
    sys.path.insert(0, os.path.dirname(HERE))
    from samples.write import write_models

    write_models(folder)
    files = {os.path.relpath(path, folder).replace(os.sep, "/"): _sha256(path) for path in _files(folder)}
    with open(os.path.join(folder, MANIFEST), "w") as stream:
        json.dump({"recipe": recipe(), "files": dict(sorted(files.items()))}, stream, indent=1)


def _replace(folder: str, write: Callable[[str], None]) -> None:
    fresh, old = ("%s.%s%d" % (folder, kind, os.getpid()) for kind in ("new", "old"))
    os.makedirs(fresh)
    try:
        write(fresh)
        if os.path.exists(folder):
            os.rename(folder, old)
        os.rename(fresh, folder)
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _files(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(parent, name)


def _sha256(path: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
