"""Archives: what they hold is what was put in, or they are not opened."""

import hashlib
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

import c2step
from c2step.capture import Capture
from c2step.cli import main
from c2step.compare.loading import make_reference, strange
from c2step.errors import CaptureError, UsageError
from c2step.references import Reference
from c2step.references.archive import Archive, make_archive, open_archive


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


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "manifest", "note"])
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
        said = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(dict(said, **({"format": 99} if damage == "manifest" else {"note": "another"}))))
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


def test_values_of_another_model_or_input_are_told_apart(archive, capture, models, tmp_path):
    folder, other = os.path.join(models, "digits_native"), str(tmp_path / "predict_net.pb")
    pathlib.Path(other).write_bytes(pathlib.Path(folder, "predict_net.pb").read_bytes() + b"\n\x01x")  # another name
    with pytest.raises(CaptureError, match="first was made from another model than predict_net.pb: from .*predict_net"):
        make_archive(str(tmp_path / "b"), {"first": capture}, [other])
    manifest = pathlib.Path(archive.path, "manifest.json")
    said = json.loads(manifest.read_text())
    for name in ("init_net.pb", "predict_net.pb"):
        said["files"]["model/" + name]["sha256"] = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(CaptureError, match="first was made from another model"):
        Archive(archive.path, said).check()
    image = dict(np.load(folder + "/input.npz"))
    name, values = next(iter(image.items()))
    header = json.loads(pathlib.Path(capture, "capture.json").read_text())
    digest = hashlib.sha256(values.tobytes()).hexdigest()
    told = dict(header, inputs=[{"name": name, "dtype": str(values.dtype), "shape": list(values.shape),
                                 "sha256": digest}])  # fmt: skip
    spec = {"init_net": folder + "/init_net.pb", "predict_net": folder + "/predict_net.pb", "in_process": True}
    with c2step.open(inputs=image, **spec) as session:
        assert not make_reference(session, capture, "").notes and not strange(session, Reference("golden", told))
    with c2step.open(inputs={name: values + 1}, **spec) as session:
        (note,) = strange(session, Reference("golden", told))
        assert note == "golden was made from other inputs: %s had other values there" % name
        (note,) = strange(session, Reference("golden", dict(header, sha256={"m.onnx": "0f" * 32}, model="m.onnx")))
        assert note.startswith("golden was made from another model, m.onnx (sha256 0f0f0f0f0f0f...), and this is ")


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


# -- captures that are not whole -------------------------------------------------------------------


def cut(folder, name):
    path = pathlib.Path(folder, name)
    path.write_bytes(path.read_bytes()[:-100])


def pickled(folder, name):
    np.save(os.path.join(folder, name), np.array([{"a": 1}], dtype=object), allow_pickle=True)


def other_values(folder, name):
    path = os.path.join(folder, name)
    np.save(path, np.load(path) + 1)


def other_shape(folder, name):
    path = os.path.join(folder, name)
    np.save(path, np.load(path)[..., :-1])


def journal(folder, change):
    path = pathlib.Path(folder, "journal.jsonl")
    path.write_bytes(change(path.read_bytes().splitlines(True)))


BROKEN = {
    "cut": (cut, r"conv1"),
    "pickled": (pickled, "conv1"),
    "values": (other_values, "other values"),
    "shape": (other_shape, "the journal tells of"),
    "gone": (lambda folder, name: os.remove(os.path.join(folder, name)), "of blob conv1 is missing"),
    "short": (lambda folder, name: journal(folder, lambda rows: b"".join(rows[:-1])), "10 of 11 operators, not of 10"),
    "torn": (lambda folder, name: journal(folder, lambda rows: b"".join(rows)[:-9]), "is cut short"),
    "no journal": (lambda folder, name: os.remove(os.path.join(folder, "journal.jsonl")), "journal.jsonl"),
}


@pytest.fixture(scope="module", params=["run", "onnxruntime"])
def either(request, models, tmp_path_factory):
    """A run of Caffe2, and golden values, of one model."""
    model, out = os.path.join(models, "digits_cnn"), str(tmp_path_factory.mktemp("either") / "capture")
    given = ["--input", model + "/input.npz", "-o", out]
    words = ["dump"] if request.param == "run" else ["reference", "onnxruntime"]
    assert main([*words, model + "/model.onnx", *given]) == 0
    return out


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_is_neither_archived_nor_called_whole(either, tmp_path, capsys, how):
    broken, wanted = BROKEN[how]
    copy = str(tmp_path / "copy")
    shutil.copytree(either, copy)
    broken(copy, Capture(copy).find("conv1").file)
    if "11 operators" in wanted and Capture(copy).header["kind"] == "reference":
        import onnx

        nodes = len(onnx.load(Capture(copy).header["model"]).graph.node)
        wanted = "%d of %d operators, not of %d" % (nodes - 1, nodes, nodes - 1)
    assert main(["archive", copy, "-o", str(tmp_path / "archive")]) == 7
    shown = capsys.readouterr()
    assert wanted in shown.err and copy in shown.err and "whole, " not in shown.out
    assert not os.path.exists(str(tmp_path / "archive"))


def test_a_run_that_failed_is_not_archived(tmp_path, capsys):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"])
    net.op.add(type="Copy", input=["x"], output=["y"])
    net.op.add(type="FC", input=["y", "y", "y"], output=["z"])
    (tmp_path / "n.pb").write_bytes(net.SerializeToString())
    c2step.dump(None, {"x": np.ones((2, 3), np.float32)}, str(tmp_path / "out"), predict_net=str(tmp_path / "n.pb"))
    assert main(["archive", str(tmp_path / "out"), "-o", str(tmp_path / "a")]) == 7
    assert "operator 1 FC failed" in capsys.readouterr().err


def test_check_looks_into_archives_of_before(archive, capsys):
    """An archive whose hashes agree and whose capture was broken when it was put in."""
    folder = pathlib.Path(archive.path)
    manifest = json.loads((folder / "manifest.json").read_text())
    name = next(name for name in manifest["files"] if name.endswith("prob.npy"))
    data = (folder / name).read_bytes()[:-4]
    (folder / name).write_bytes(data)
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest.pop("sha256")
    (folder / "manifest.json").write_text(json.dumps(dict(manifest, format=1)))
    open_archive(archive.path)
    assert main(["archive", "--check", archive.path]) == 7
    assert "prob" in capsys.readouterr().err


def test_what_a_reference_lacks_is_said(shared, tmp_path, capsys):
    folder = os.path.join(shared, "cases", "18_custom_domain_taken_as_onnx")
    main(["reference", "onnxruntime", folder + "/model.onnx", "--input", folder + "/inputs.npz", "-o",
          str(tmp_path / "golden")])  # fmt: skip
    assert main(["archive", str(tmp_path / "golden"), "-o", str(tmp_path / "a")]) == 0
    assert "no value for y: onnxruntime refuses node 1 Softplus" in capsys.readouterr().out
