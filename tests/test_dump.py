"""The command line's dump, show and convert: what is written, and that nothing is lost."""

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

from c2step.cli import main
from oracle import run_net, same_bytes


def journal(folder):
    with open(os.path.join(str(folder), "journal.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def dump(folder, out, *words):
    return main(["dump", folder, "--input", os.path.join(folder, "inputs.npz"), "-o", str(out)] + list(words))


def test_every_blob_of_a_model_bit_for_bit(shared, tmp_path):
    folder = os.path.join(shared, "models", "style-crayon")
    assert main(["dump", folder, "--input", folder + "/input.npz", "-o", str(tmp_path / "out")]) == 0
    rows = journal(tmp_path / "out")
    assert [row["index"] for row in rows] == list(range(22)) and {row["status"] for row in rows} == {"ok"}
    truth = run_net(folder + "/init_net.pb", folder + "/predict_net.pb", folder + "/input.npz", tmp_path)
    last = {out["name"]: out for row in rows for out in row["outputs"]}
    for name, out in last.items():
        assert same_bytes(np.load(str(tmp_path / "out" / out["file"])), truth[name])
    header = json.loads((tmp_path / "out" / "capture.json").read_text())
    assert header["ended"]["reason"] == "end" and set(header["sha256"]) == {"init_net.pb", "predict_net.pb"}
    assert header["inputs"]["data_int8_bgra"] == {"dtype": "uint8", "shape": [1, 128, 128, 4]}
    assert header["versions"]["torch"]


def test_names_that_break_files(shared, tmp_path):
    folder = os.path.join(shared, "cases", "44_names_break_files")
    out = tmp_path / "inner" / "out"
    assert dump(folder, out) == 0
    rows = journal(out)
    names = [row["outputs"][0]["name"] for row in rows]
    assert "../../outside" in names and "/tmp/absolute" in names and "n" * 300 in names and "卷积" in names
    files = [row["outputs"][0]["file"] for row in rows]
    assert len({file.lower() for file in files}) == len(files) == 15
    for value, file in enumerate(files[:-1], 1):
        assert os.path.dirname(os.path.realpath(str(out / file))) == os.path.realpath(str(out))
        assert np.load(str(out / file)).tolist() == [value, value]
    assert sorted(os.listdir(str(out))) == sorted(files + ["capture.json", "journal.jsonl"])
    assert os.listdir(str(tmp_path)) == ["inner"] and os.listdir(str(tmp_path / "inner")) == ["out"]


def test_blobs_that_are_no_tensors_are_recorded_as_what_they_are(shared, tmp_path):
    assert dump(os.path.join(shared, "cases", "48_fetch_returns_text"), tmp_path / "mask") == 0
    mask = journal(tmp_path / "mask")[0]["outputs"][1]
    assert (mask["name"], mask["kind"], mask["file"], mask["shape"]) == ("mask", "uninitialised", None, [])
    assert dump(os.path.join(shared, "cases", "49_int8_blob"), tmp_path / "int8") == 0
    row = journal(tmp_path / "int8")[0]["outputs"][0]
    inputs = np.load(os.path.join(shared, "cases", "49_int8_blob", "inputs.npz"))["x"]
    stored = np.load(str(tmp_path / "int8" / row["file"]))
    assert row["kind"] == "int8" and stored.dtype == np.uint8
    real = (stored.astype(np.float32) - row["summary"]["zero_point"]) * row["summary"]["scale"]
    assert np.abs(real - inputs).max() <= row["summary"]["scale"] / 2 + 1e-6
    assert dump(os.path.join(shared, "cases", "61_zero_size_tensors"), tmp_path / "empty") == 0
    shapes = [out["shape"] for row in journal(tmp_path / "empty") for out in row["outputs"]]
    assert shapes and all(0 in shape for shape in shapes)


@pytest.mark.parametrize(
    ("case", "status", "rows", "words"),
    [
        ("25_int_div_by_zero_sigfpe", 5, ["ok", "died"], "SIGFPE"),
        ("30_scatter_assign_oob_segv", 5, ["ok", "died"], "SIGSEGV"),
        ("27_maxpool_stride0_fetch_segv", 4, ["ok", "failed"], "SIGSEGV"),
        ("50_failed_op_keeps_old_value", 4, ["ok", "failed"], "input channels"),
        ("59_lmdb_op_unavailable", 4, ["failed"], "lmdb"),
    ],
)
def test_the_capture_is_complete_up_to_the_end(shared, tmp_path, capsys, case, status, rows, words):
    assert dump(os.path.join(shared, "cases", case), tmp_path / "out") == status
    found = journal(tmp_path / "out")
    assert [row["status"] for row in found] == rows
    assert words in found[-1]["error"] and words in capsys.readouterr().err
    assert not found[-1]["outputs"] and all(out["file"] for row in found[:-1] for out in row["outputs"])


def test_filters_and_limits(models, tmp_path, capsys):
    folder = os.path.join(models, "digits_cnn")
    base = ["dump", folder + "/model.onnx", "--input", folder + "/input.npz", "-o"]
    assert main(base + [str(tmp_path / "a"), "--type", "Conv"]) == 0
    kept = {row["type"] for row in journal(tmp_path / "a") for out in row["outputs"] if out["file"]}
    assert kept == {"Conv"}
    assert main(base + [str(tmp_path / "b"), "--match", "^relu"]) == 0
    kept = {out["name"] for row in journal(tmp_path / "b") for out in row["outputs"] if out["file"]}
    assert kept and all(name.startswith("relu") for name in kept)
    assert main(base + [str(tmp_path / "c"), "--level", "stats"]) == 0
    assert sorted(os.listdir(str(tmp_path / "c"))) == ["capture.json", "journal.jsonl"]
    capsys.readouterr()
    assert main(base + [str(tmp_path / "d"), "--max-bytes", "20k"]) == 7
    assert "--max-bytes" in capsys.readouterr().err
    assert (
        sum(os.path.getsize(str(tmp_path / "d" / f)) for f in os.listdir(str(tmp_path / "d")) if f.endswith("npy"))
        <= 20 * 1024
    )
    assert main(base + [str(tmp_path / "e"), "--type", "Convv"]) == 2
    assert main(base + [str(tmp_path / "f"), "--match", "("]) == 2


def test_a_folder_of_other_files_is_not_touched(models, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    folder = os.path.join(models, "digits_cnn")
    assert main(["dump", folder + "/model.onnx", "--input", folder + "/input.npz", "-o", str(tmp_path)]) == 7
    assert "not empty" in capsys.readouterr().err and os.listdir(str(tmp_path)) == ["mine.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_ends_cleanly(models, tmp_path, capsys):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)]).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        folder = os.path.join(models, "digits_cnn")
        status = main(["dump", folder + "/model.onnx", "--input", folder + "/input.npz", "-o", str(disk / "out")])
        said = capsys.readouterr().err
        assert status == 7 and "disk is full" in said
        for row in journal(disk / "out"):
            for out in row["outputs"]:
                if out["file"]:
                    assert np.load(str(disk / "out" / out["file"])).shape == tuple(out["shape"])
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_show_lists_whole_names(shared, tmp_path, capsys):
    folder = os.path.join(shared, "cases", "44_names_break_files")
    dump(folder, tmp_path / "out")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == 15 and any("n" * 300 in line for line in lines) and any("line\\nbreak" in line for line in lines)
    )
    assert main(["show", str(tmp_path / "out"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["operators"]) == 15
    assert main(["show", os.path.join(shared, "models", "c2_trained_digits", "train_net.pb")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 42


@pytest.mark.parametrize("name", ["digits_lstm", "digits_cnn", "digits_native"])
def test_converted_nets_run_in_a_bare_script(models, tmp_path, name):
    folder = os.path.join(models, name)
    source = folder + "/model.onnx" if os.path.exists(folder + "/model.onnx") else folder
    assert main(["convert", source, "-o", str(tmp_path / "nets"), "--text"]) == 0
    assert sorted(os.listdir(str(tmp_path / "nets"))) == [
        "init_net.pb",
        "init_net.pbtxt",
        "predict_net.pb",
        "predict_net.pbtxt",
    ]
    nets = [str(tmp_path / "nets" / net) for net in ("init_net.pb", "predict_net.pb")]
    found = run_net(nets[0], nets[1], folder + "/input.npz", tmp_path)
    for blob, value in np.load(folder + "/expected.npz").items():
        np.testing.assert_allclose(found[blob], value, rtol=1e-3, atol=1e-5)
    words = ["dump", "--init-net", nets[0] + "txt", "--predict-net", nets[1] + "txt", "--input", folder + "/input.npz"]
    assert main(words + ["-o", str(tmp_path / "out")]) == 0


def test_a_broken_pair_of_stock_caffe2_is_stepped(shared, tmp_path):
    code = """
import sys, onnx
from caffe2.python.onnx.backend import Caffe2Backend
model = onnx.load(sys.argv[1])
for path, net in zip(sys.argv[2:], Caffe2Backend.onnx_graph_to_caffe2_net(model)):
    open(path, "wb").write(net.SerializeToString())
"""
    folder = os.path.join(shared, "cases", "33_init_net_not_split")
    nets = [str(tmp_path / "init_net.pb"), str(tmp_path / "predict_net.pb")]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, folder + "/model.onnx"] + nets,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    out = tmp_path / "out"
    assert main(["dump", str(tmp_path), "--input", folder + "/inputs.npz", "-o", str(out)]) == 0
    assert any("repeats the network" in note for note in json.loads((out / "capture.json").read_text())["notes"])
    with open(folder + "/ref_names.json") as file:
        names = json.load(file)
    values = dict(zip(names, np.load(folder + "/ref.npz").values()))
    for row in journal(out):
        for blob in row["outputs"]:
            np.testing.assert_allclose(np.load(str(out / blob["file"])), values[blob["name"]], rtol=1e-4, atol=1e-5)


def test_help_and_mistakes(capsys):
    assert main(["--help"]) == 0 and "blame" in capsys.readouterr().out
    assert main(["dunp"]) == 2 and "did you mean dump" in capsys.readouterr().err
    assert main(["no-such-model.onnx"]) == 3
    with contextlib.suppress(SystemExit):
        assert main(["dump"]) == 2


@pytest.mark.parametrize("importing", ["faithful", "repaired"])
def test_convert_says_what_opening_says(tmp_path, capsys, importing):
    """Notes, and what lint knows that the nets will still do; a model that converts is no failure."""
    nodes = [helper.make_node("Softmax", ["x"], ["s"], axis=1), helper.make_node("LogSoftmax", ["s"], ["y"], axis=1)]
    path = str(tmp_path / "model.onnx")
    shape, kind = [1, 3, 4, 4], onnx.TensorProto.FLOAT
    declared = [[helper.make_tensor_value_info(name, kind, shape)] for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", *declared), ir_version=8)
    model.opset_import[0].version = 13
    onnx.save(model, path)
    words = [path, "--import", importing]
    assert main(words + ["--random-inputs", "0", "-c", "where"]) == 0
    opening = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("note: ", "lint: "))]
    assert main(["convert", *words, "-o", str(tmp_path / "nets")]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines() == [line for line in opening if "drawn" not in line]
    assert [line for line in told.err.splitlines() if line.startswith("lint: ")] or importing == "repaired"
    assert [os.path.basename(line) for line in told.out.splitlines()] == ["init_net.pb", "predict_net.pb"]
