"""Archives: what they hold is what was put in, or they are not opened."""

import json
import os
import pathlib

import numpy as np
import pytest

import c2step
from c2step.capture import Capture
from c2step.cli import main
from c2step.errors import CaptureError, UsageError
from c2step.references.archive import make_archive, open_archive


@pytest.fixture(scope="module")
def capture(models, tmp_path_factory):
    folder = os.path.join(models, "digits_native")
    out = str(tmp_path_factory.mktemp("capture") / "first")
    c2step.dump(None, dict(np.load(folder + "/input.npz")), out, init_net=folder + "/init_net.pb",
                predict_net=folder + "/predict_net.pb")  # fmt: skip
    return out


@pytest.fixture
def archive(capture, models, tmp_path):
    files = [os.path.join(models, "digits_native", name) for name in ("init_net.pb", "predict_net.pb")]
    return make_archive(str(tmp_path / "archive"), {"first": capture}, files, "for the upgrade")


def test_what_comes_out_is_what_went_in(archive, capture):
    reference = open_archive(archive.path).reference()
    for stored in Capture(capture).blobs():
        assert np.array_equal(
            reference.blob(stored.name, stored.version).array, Capture(capture).load(stored.name, stored.version).array
        )
    case = archive.manifest["cases"]["first"]
    assert case["versions"] == Capture(capture).header["versions"] and archive.manifest["note"] == "for the upgrade"
    assert sorted(os.listdir(os.path.join(archive.path, "model"))) == ["init_net.pb", "predict_net.pb"]


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "manifest"])
def test_a_damaged_archive_is_not_opened(archive, damage, capsys):
    folder = pathlib.Path(archive.path, "cases", "first")
    path = next(path for path in sorted(folder.iterdir()) if path.suffix == ".npy")
    if damage == "changed":
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "missing":
        path.unlink()
    elif damage == "added":
        (folder / "new.npy").write_bytes(b"")
    else:
        manifest = pathlib.Path(archive.path, "manifest.json")
        manifest.write_text(json.dumps(dict(json.loads(manifest.read_text()), format=2)))
    with pytest.raises(CaptureError):
        open_archive(archive.path)
    assert main(["archive", "--check", archive.path]) == 7
    capsys.readouterr()


def test_blame_takes_an_archive_and_one_of_its_cases(archive, models, capsys):
    folder = os.path.join(models, "digits_native")
    words = ["blame", "--init-net", folder + "/init_net.pb", "--predict-net", folder + "/predict_net.pb", "--input",
             folder + "/input.npz", "--against"]  # fmt: skip
    assert main([*words, archive.path]) == 0
    assert main([*words, os.path.join(archive.path, "cases", "first")]) == 0
    capsys.readouterr()


def test_cases_by_name(capture, tmp_path):
    made = make_archive(str(tmp_path / "a"), {"x": capture, "y": capture})
    assert made.cases() == ["x", "y"] and made.reference("y").names()
    with pytest.raises(UsageError, match="2 cases"):
        made.reference()
    with pytest.raises(UsageError, match="no case z"):
        made.reference("z")


def test_an_archive_is_never_written_over(archive, capture, capsys):
    assert main(["archive", capture, "-o", archive.path]) == 7
    assert main(["archive", capture]) == 2
    assert main(["archive", "--check", archive.path]) == 0
    assert "first: " in capsys.readouterr().out
