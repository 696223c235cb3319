"""Golden values from captures, archives and folders, by their true names, and what --against may name."""

import glob
import json
import os

import numpy as np
import pytest

from c2step.blob import INT8, TENSOR, Blob
from c2step.capture import CaptureWriter, file_name, write_blob
from c2step.errors import CaptureError, UsageError
from c2step.references import Elsewhere, Reference, load, open_capture, open_folder, open_npz
from reference_support import PYTHON, differing, golden
from shared_material import shared_dir

CASES = sorted(os.path.dirname(p) for p in glob.glob(os.path.join(shared_dir() or "", "cases", "*", "ref.npz")))
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 3), np.int64)


@pytest.fixture
def capture(tmp_path):
    """A capture with two versions of one blob, an Int8 blob, one that was never written and a failed operator."""
    path = str(tmp_path / "run")
    writer = CaptureWriter(path)
    writer.begin({"kind": "run", "notes": ["made by hand"]})
    quantised = Blob("q", INT8, np.uint8([0, 128, 255]), 0.5, 128)
    for tick, blob in enumerate([Blob("a", TENSOR, A), Blob("a", TENSOR, A + 1), Blob("e", TENSOR, B), quantised]):
        file = file_name(tick, "o0", blob.name, blob.kind)
        write_blob(os.path.join(path, file), blob)
        summary = blob.summary().to_json()
        version = 2 if tick == 1 else 1
        writer.add(
            {
                "index": tick,
                "type": "Relu",
                "name": "",
                "status": "ok",
                "outputs": [
                    {"name": blob.name, "version": version, "kind": blob.kind, "file": file, "summary": summary}
                ],
            }
        )
    writer.add(
        {
            "index": 4,
            "type": "Dropout",
            "name": "",
            "status": "ok",
            "outputs": [
                {
                    "name": "mask",
                    "version": 1,
                    "kind": "uninitialised",
                    "file": None,
                    "summary": {"kind": "uninitialised", "text": "never written"},
                }
            ],
        }
    )
    writer.add(
        {
            "index": 5,
            "type": "Reshape",
            "name": "",
            "status": "failed",
            "error": "64 against 256",
            "outputs": [{"name": "r", "version": 1, "kind": "missing", "file": None}],
        }
    )
    writer.close()
    return path


def test_a_capture_gives_versions_kinds_and_reasons(capture):
    reference = open_capture(capture)
    assert reference.names() == ["a", "e", "q"]
    assert reference.versions("a") == [1, 2]
    assert np.array_equal(reference.get("a"), A + 1) and np.array_equal(reference.get("a", 1), A)
    assert reference.get("e").shape == (0, 3)
    assert reference.get("q").tolist() == [-64, 0, 63.5] and reference.blob("q").kind == INT8
    assert reference.missing == {"mask": "never written", "r": "64 against 256"}
    assert reference.notes == ["made by hand"] and reference.meta["kind"] == "run"


def test_what_is_not_there_is_explained(capture):
    reference = open_capture(capture)
    with pytest.raises(CaptureError, match="has no r: 64 against 256"):
        reference.get("r")
    with pytest.raises(CaptureError, match="has no a@3"):
        reference.get("a", 3)
    with pytest.raises(CaptureError, match="did you mean mask"):
        reference.get("masc")
    assert reference.find("masc") is None and reference.find("a", 3) is None
    assert np.array_equal(reference.find("a"), A + 1)


def test_renamed_values(capture):
    other = open_capture(capture).renamed({"blob": "a", "gone": "r", "never": "nothing"})
    assert other.names() == ["blob"] and other.missing == {"gone": "64 against 256"}
    assert np.array_equal(other.get("blob", 1), A)


@pytest.mark.parametrize("folder", CASES, ids=os.path.basename)
def test_the_shared_archives_have_their_true_names(folder):
    for reference in (open_npz(os.path.join(folder, "ref.npz")), open_folder(folder)):
        assert sorted(reference.names()) == sorted(golden(folder))
        assert differing(reference, golden(folder)) == []


def test_an_archive_of_plain_names(tmp_path):
    np.savez(str(tmp_path / "x.npz"), a=A, b=B)
    reference = load(str(tmp_path / "x.npz"), None, {}, "", PYTHON)
    assert isinstance(reference, Reference) and reference.names() == ["a", "b"]
    assert np.array_equal(reference.get("a"), A) and reference.get("b").shape == (0, 3)


@pytest.mark.parametrize("turned", [False, True], ids=["file: blob", "blob: file"])
def test_a_folder_with_a_name_map(turned, tmp_path):
    np.save(str(tmp_path / "0001.npy"), A)
    np.save(str(tmp_path / "0002.npy"), B)
    names = {"0001": "res4/conv:0", "0002.npy": "e"}
    (tmp_path / "names.json").write_text(json.dumps({v: k for k, v in names.items()} if turned else names))
    reference = open_folder(str(tmp_path))
    assert differing(reference, {"res4/conv:0": A, "e": B}) == []


def test_a_folder_without_one(tmp_path):
    np.save(str(tmp_path / "conv1.npy"), A)
    assert open_folder(str(tmp_path)).names() == ["conv1"]


@pytest.mark.parametrize("name, data", [("x.npz", b"PK\x03\x04 cut off"), ("x.npz", b""), ("names.json", b"3")])
def test_damaged_files_are_named(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    np.save(str(tmp_path / "a.npy"), A)
    with pytest.raises(CaptureError, match=name):
        open_npz(str(tmp_path / name)) if name == "x.npz" else open_folder(str(tmp_path))


def test_values_that_run_elsewhere_are_handed_on(tmp_path):
    assert load("python:/old/bin/python", None, {}, "", PYTHON) == Elsewhere("python", "/old/bin/python")
    assert load("docker:caffe2:1.2", None, {}, "", PYTHON) == Elsewhere("docker", "caffe2:1.2")
    assert load("runtime:1.2.0", None, {}, "", PYTHON) == Elsewhere("runtime", "1.2.0")


def test_what_no_reference_can_be(tmp_path):
    (tmp_path / "notes.txt").write_text("values")
    with pytest.raises(UsageError, match="there is no reference nothing"):
        load("nothing", None, {}, "", PYTHON)
    with pytest.raises(UsageError, match="is no reference"):
        load(str(tmp_path / "notes.txt"), None, {}, "", PYTHON)
    with pytest.raises(UsageError, match="these are Caffe2 nets"):
        load("onnxruntime", None, {}, "", PYTHON)
    with pytest.raises(CaptureError, match="holds no capture and no .npy file"):
        load(str(tmp_path), None, {}, "", PYTHON)
