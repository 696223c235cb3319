"""The lock files of the Caffe2 environments: one for each version, every file by its hash, no word of a registry."""

import os
import re

import pytest

PINS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docker", "pins")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def text_of(name):
    with open(os.path.join(PINS, name)) as file:
        return file.read()


def versions():
    rows = [line.split() for line in text_of("versions").splitlines() if not line.startswith("#")]
    return dict(rows)


def locked(torch):
    """Package, version and hashes of each entry of a lock file."""
    entries = re.sub(r"\\\n\s*", "", text_of("torch-%s.txt" % torch)).splitlines()
    entries = [entry.split() for entry in entries if not entry.startswith("#")]
    return {entry[0].split("==")[0]: (entry[0].split("==")[1], entry[1:]) for entry in entries}


def asked(name):
    """Package and version of each exact pin in a requirements file, by Python 3.7 or newer."""
    found = {"3.7": {}, "3.9": {}}
    for line in text_of(name).splitlines():
        pin = re.match(r"([A-Za-z0-9_-]+)==([^;\s]+)\s*(?:;\s*(.*))?$", line)
        for python in found:
            if pin and holds(pin.group(3), python):
                found[python][pin.group(1).replace("_", "-")] = pin.group(2)
    return found


def holds(marker, python):
    tests = re.findall(r'python_version (<|>=) "3\.(\d+)"', marker or "")
    minor = int(python.split(".")[1])
    return all(minor < int(bound) if sign == "<" else minor >= int(bound) for sign, bound in tests)


def test_one_lock_file_for_each_version():
    files = {name[len("torch-") : -len(".txt")] for name in os.listdir(PINS) if name.startswith("torch-")}
    assert files == set(versions()) and len(files) == 11
    assert all(
        python.startswith("3.7." if torch < "1.7" and torch[:4] != "1.10" else "3.9.")
        for torch, python in versions().items()
    )


@pytest.mark.parametrize("torch", sorted(versions()))
def test_every_entry_has_an_exact_version_and_hashes(torch):
    entries = locked(torch)
    assert entries["torch"][0] == torch
    for version, hashes in entries.values():
        assert re.match(r"[0-9][0-9A-Za-z.]*$", version)
        assert hashes and all(HASH.match(one) for one in hashes)


@pytest.mark.parametrize("torch", sorted(versions()))
def test_locks_hold_what_the_pins_ask(torch):
    python = versions()[torch].rpartition(".")[0]
    entries = locked(torch)
    for name in ("caffe2.txt", "onnx.txt", "worker.in"):
        for package, version in asked(name)[python].items():
            assert entries[package][0] == (torch if package == "torch" else version)
    assert {"prompt-toolkit", "onnxruntime", "protobuf", "future", "six", "pyyaml", "pillow"} <= set(entries)


@pytest.mark.parametrize("torch", sorted(versions()))
def test_no_lock_names_a_registry(torch):
    assert not re.search(r"://|index-url|find-links|trusted-host", text_of("torch-%s.txt" % torch))
