"""What users get wrong: damaged files, odd options, closed streams; each is one error line, nothing stays behind."""

import gc
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import pytest

from c2step.capture import Capture, CaptureWriter
from c2step.cli import main
from c2step.errors import CaptureError, InputError, ModelError
from c2step.importer.files import find_model
from c2step.importer.inputs import random_inputs, read_inputs
from c2step.launch import open_session
from c2step.model import Declared
from small_nets import written


def graph_of(tensors, inputs=(), nodes=None):
    """A model that gives back what it is fed, with these initializers."""
    value = onnx.helper.make_tensor_value_info("x", 1, [2])
    out = onnx.helper.make_tensor_value_info("y", 1, [2])
    nodes = nodes or [onnx.helper.make_node("Relu", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", list(inputs) or [value], [out], list(tensors))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 9)], ir_version=4)


def stored(model, folder, name="model.onnx"):
    path = os.path.join(str(folder), name)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    return path


def zipped(path, entries):
    with zipfile.ZipFile(str(path), "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return str(path)


# -- zips -------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files that a test can look into."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.mark.parametrize("in_process", [True, False])
def test_what_a_zip_held_goes_away_with_the_session(in_process, temporary, tmp_path):
    net = written([("Relu", ["x"], ["y"], {})], ["x"], tmp_path)
    with open(net, "rb") as file:
        path = zipped(tmp_path / "net.zip", {"inner/predict_net.pb": file.read()})
    session = open_session(path, {"x": np.zeros(2, np.float32)}, in_process=in_process)
    unpacked = session.model.path
    assert os.path.realpath(unpacked).startswith(os.path.realpath(str(temporary))) and os.path.exists(unpacked)
    session.restart()
    assert session.cont().reason == "end" and session.model.path == unpacked
    session.close()
    del session
    gc.collect()
    assert os.listdir(str(temporary)) == []


@pytest.mark.parametrize(
    "entries, words",
    [
        ({"../out.txt": b"x"}, "holds a path outside itself: ../out.txt"),
        ({"a/../../out.txt": b"x"}, "holds a path outside itself"),
        ({"/etc/c2step": b"x"}, "holds a path outside itself: /etc/c2step"),
        ({"readme.txt": b"x"}, "holds no ONNX model and no predict_net"),
        ({}, "holds no ONNX model and no predict_net"),
    ],
)
def test_a_zip_without_a_model_is_named(entries, words, tmp_path):
    path = zipped(tmp_path / "odd.zip", entries)
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    with pytest.raises(ModelError, match="^" + path) as caught:
        find_model(path, None, None, str(unpacked))
    assert words in caught.value.message
    assert words.startswith("holds no") or os.listdir(str(unpacked)) == []


def test_a_damaged_zip_is_named(tmp_path):
    path = zipped(tmp_path / "odd.zip", {"model.onnx": b"0123456789" * 10})
    with open(path, "rb+") as file:
        file.seek(60)
        file.write(b"changed")
    with pytest.raises(ModelError, match="cannot unpack .*odd.zip"):
        find_model(path, None, None, str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["odd.zip"]


# -- damaged tensors --------------------------------------------------------------------------


def tensor(**fields):
    return onnx.TensorProto(name="w", **dict({"dims": [2], "data_type": 1}, **fields))


def external(**entries):
    made = tensor(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    return made


EXTERNAL = [
    ({"location": "/etc/passwd"}, "not beside the model"),
    ({"location": "../secret.bin"}, "not beside the model"),
    ({"location": "inner/../../secret.bin"}, "not beside the model"),
    ({}, "not beside the model"),
    ({"location": "absent.bin"}, "is not there"),
    ({"location": "folder"}, "is not there"),
    ({"location": "short.bin", "offset": "abc"}, "is damaged"),
    ({"location": "short.bin", "offset": "-4"}, "is damaged"),
    ({"location": "short.bin", "length": "8"}, "too short"),
    ({"location": "short.bin"}, "needs 8 bytes, it has 6"),
]
DAMAGED = [
    ({"raw_data": b"123"}, "needs 8 bytes, it has 3"),
    ({"float_data": [1.0]}, "needs 2 numbers, it has 1"),
    ({}, "needs 2 numbers, it has 0"),
    ({"dims": [1 << 40]}, "needs 1099511627776 numbers, it has 0"),
    ({"dims": [-2], "float_data": [1.0, 2.0]}, "its shape is [-2]"),
    ({"data_type": 99}, "data_type is 99"),
    ({"data_type": 0}, "data_type is 0"),
    ({"data_type": 8, "string_data": [b"a"]}, "needs 2 strings, it has 1"),
    ({"data_type": 7, "raw_data": b"12345678"}, "needs 16 bytes, it has 8"),
]


@pytest.mark.parametrize(
    "made, words",
    [(external(**entries), words) for entries, words in EXTERNAL]
    + [(tensor(**fields), words) for fields, words in DAMAGED],
)
def test_a_damaged_weight_is_named(made, words, tmp_path):
    from c2step.importer.onnxfile import load

    (tmp_path / "model" / "folder").mkdir(parents=True)
    (tmp_path / "model" / "short.bin").write_bytes(b"123456")
    (tmp_path / "secret.bin").write_bytes(b"12345678")
    for model in (graph_of([made]), graph_of([], nodes=[onnx.helper.make_node("Constant", [], ["y"], value=made)])):
        path = stored(model, tmp_path / "model")
        with pytest.raises(ModelError) as caught:
            load(path)
        message = caught.value.message
        assert "tensor w" in message and path in message and words in message


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16", "?"])
@pytest.mark.parametrize("raw", [True, False])
def test_whole_weights_of_every_type_are_taken(dtype, raw, tmp_path):
    from c2step.importer.onnxfile import load

    values = np.ones((2, 3), dtype)
    code = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
    made = onnx.helper.make_tensor("w", code, [2, 3], values.tobytes() if raw else values.reshape(-1), raw)
    load(stored(graph_of([made]), tmp_path))


# -- inputs and options -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, shape, words",
    [
        ("bfloat16", (2,), "declared bfloat16"),
        ("float8e4m3fn", (2,), "declared float8e4m3fn"),
        ("int4", (2,), "declared int4"),
        ("complex64", (2,), "declared complex64"),
        ("float32", (1 << 40, 2), "too large"),
        ("string", (1 << 70,), "too large"),
    ],
)
def test_inputs_that_cannot_be_drawn(dtype, shape, words):
    with pytest.raises(InputError, match="input x .*" + words):
        random_inputs(0, [Declared("x", dtype, shape)], {}, [])


def test_every_type_that_caffe2_takes_can_be_drawn():
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool"):
        drawn = random_inputs(0, [Declared("x", dtype, (3, 0)), Declared("y", dtype, ())], {}, [])
        assert (drawn["x"].dtype, drawn["x"].shape, np.asarray(drawn["y"]).shape) == (np.dtype(dtype), (3, 0), ())


def test_a_zip_of_other_files_is_no_npz(tmp_path):
    path = zipped(tmp_path / "two.zip", {"a.onnx": b"x", "b.onnx": b"y"})
    npz = zipped(tmp_path / "two.npz", {"a.onnx": b"x", "b.onnx": b"y"})
    declared = [Declared("x", "float32", (2,))]
    mistakes = {path: "zip archive, no .npy", "x=" + path: "zip archive", npz: "is no .npz", "x=" + npz: "is no .npz"}
    for word, words in mistakes.items():
        with pytest.raises(InputError, match=words):
            read_inputs([word], declared, lambda path: pytest.fail("no TensorProto"))


@pytest.mark.parametrize(
    "option, value",
    [("--max-bytes", value) for value in ("inf", "1e400", "-5", "nan", "-1k", "", "k", "1e400k", "many")]
    + [("--timeout", value) for value in ("nan", "-1", "0", "inf", "soon")],
)
def test_numbers_that_are_none(option, value, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["dump", "model.onnx", "-o", "out", "%s=%s" % (option, value)])
    assert caught.value.code == 2
    assert "error: argument %s: %s is no " % (option, value or "an empty word") in capsys.readouterr().err


# -- captures ---------------------------------------------------------------------------------

HEADER = {"kind": "run", "c2step": "1"}
OUTPUT = {"name": "a", "kind": "tensor", "file": "a.npy", "summary": {"kind": "tensor", "shape": [2]}}
ROW = {"index": 0, "type": "Relu", "status": "ok", "outputs": [OUTPUT]}


def capture(folder, header=HEADER, journal=(ROW,)):
    folder.mkdir(exist_ok=True)
    np.save(str(folder / "a.npy"), np.ones(2, np.float32))
    (folder / "capture.json").write_text(header if isinstance(header, str) else json.dumps(header))
    lines = [row if isinstance(row, str) else json.dumps(row) for row in journal]
    (folder / "journal.jsonl").write_text("".join(line + "\n" for line in lines))
    return str(folder)


def with_output(**changes):
    return dict(ROW, outputs=[dict(OUTPUT, **changes)])


@pytest.mark.parametrize(
    "damage",
    [{"header": text} for text in ("", "[1]", "{}", '{"mine": 1}', '{"kind": 5, "c2step": ""}', "[" * 100000, "\udc80")]
    + [{"journal": [ROW, line]} for line in ("[1,2]", "5", "null", "no JSON", "{}", '{"outputs":[{"name":"a"}]}')]
    + [{"journal": [dict(ROW, **change)]} for change in ({"outputs": 5}, {"outputs": [5]}, {"index": []}, {"type": 5})]
    + [
        {"journal": [with_output(**change)]}
        for change in (
            {"kind": None},
            {"version": "x"},
            {"file": "../a.npy"},
            {"file": "/etc/passwd"},
            {"file": ".."},
            {"file": 5},
            {"summary": [1]},
            {"summary": {"kind": "tensor", "strange": 1}},
            {"summary": {"kind": "tensor", "shape": 5}},
        )
    ],
)
def test_a_damaged_capture_is_named(damage, tmp_path, capsys):
    if damage.get("header") == "\udc80":
        capture(tmp_path / "bad")
        (tmp_path / "bad" / "capture.json").write_bytes(b"\xff\xfe{")
    else:
        capture(tmp_path / "bad", **damage)
    good, bad = capture(tmp_path / "good"), str(tmp_path / "bad")
    for words in (["show", bad], ["show", bad, "--json"], ["compare", bad, good], ["compare", good, bad]):
        assert main(words) == 7
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: " + bad)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x05\x06" + bytes(18), b"\x93NUMPY\x01\x00"])
def test_a_damaged_value_of_a_capture_is_named(content, tmp_path, capsys):
    good, bad = capture(tmp_path / "good"), capture(tmp_path / "bad")
    (tmp_path / "bad" / "a.npy").write_bytes(content)
    assert main(["compare", bad, good]) == 7
    assert capsys.readouterr().err.startswith("error: cannot read blob a from %s" % bad)


def test_a_capture_whose_last_line_is_cut_is_read_up_to_there(tmp_path, capsys):
    path = capture(tmp_path / "cut")
    with open(path + "/journal.jsonl", "a") as file:
        file.write('{"index": 1, "ty')
    assert main(["compare", path, capture(tmp_path / "good")]) == 0


@pytest.mark.parametrize(
    "files",
    [
        {"capture.json": '{"mine": 1}'},
        {"capture.json": "[1]", "journal.jsonl": "{}\n"},
        {"capture.json": "text"},
        {"journal.jsonl": '{"outputs": [{"file": "mine.txt"}]}\n', "mine.txt": "mine"},
        {"mine.txt": "mine"},
    ],
)
def test_a_folder_of_other_files_is_never_written_to(files, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CaptureError, match="is no capture"):
        CaptureWriter(str(tmp_path)).begin(HEADER)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_an_older_capture_is_replaced_and_the_files_of_others_stay(tmp_path):
    capture(tmp_path, journal=["damaged", "[1]", dict(ROW, touched=[dict(OUTPUT, file="b.npy")])])
    for name in ("b.npy", "mine.npy"):
        (tmp_path / name).write_text("")
    writer = CaptureWriter(str(tmp_path))
    writer.begin({"kind": "reference"})
    writer.close()
    assert sorted(os.listdir(str(tmp_path))) == ["capture.json", "journal.jsonl", "mine.npy"]
    assert Capture(str(tmp_path)).header["kind"] == "reference"


@pytest.mark.parametrize("place", ["afile", "/proc/c2step", "afile/inside"])
def test_a_capture_that_cannot_be_begun(place, tmp_path):
    (tmp_path / "afile").write_text("mine")
    out = os.path.join(str(tmp_path), place)
    with pytest.raises(CaptureError, match=out) as caught:
        CaptureWriter(out).begin(HEADER)
    assert "complete" not in caught.value.hint


def test_a_dump_that_cannot_begin_says_only_that(tmp_path, capsys):
    (tmp_path / "afile").write_text("mine")
    net = written([("Relu", ["x"], ["y"], {})], ["x"], tmp_path)
    np.savez(str(tmp_path / "x.npz"), x=np.ones(2, np.float32))
    out = str(tmp_path / "afile")
    assert main(["dump", "--predict-net", net, "--input", str(tmp_path / "x.npz"), "-o", out]) == 7
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: %s is no folder" % out)


def test_a_disk_that_is_full_from_the_start(tmp_path):
    writer = CaptureWriter(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    os.symlink("/dev/full", str(tmp_path / "out" / "capture.json.new"))
    with pytest.raises(CaptureError, match="disk is full") as caught:
        writer.write_header(HEADER)
    assert "complete" not in caught.value.hint and "free space" in caught.value.hint
    assert os.listdir(str(tmp_path / "out")) == []


# -- streams ----------------------------------------------------------------------------------


FULL = "error: cannot use standard input or output: No space left on device\n"


@pytest.mark.parametrize(
    "words, redirection, status, err",
    [
        ("show {capture}", ">/dev/full", 7, FULL),
        ("compare {capture} {capture}", ">/dev/full", 7, FULL),
        ("show --help", ">/dev/full", 7, FULL),
        ("show {capture}", "<&- >&-", 0, ""),
        ("show {capture}", "2>&- >/dev/null", 0, ""),
        ("compare nothing here", "2>/dev/full", 2, ""),
    ],
)
def test_streams_that_are_full_or_closed(words, redirection, status, err, tmp_path, checkout):
    text = "%s -m c2step %s %s" % (sys.executable, words.format(capture=capture(tmp_path / "c")), redirection)
    done = subprocess.run(text, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=checkout)
    assert (done.returncode, done.stderr.decode()) == (status, err)


def test_names_that_the_output_cannot_show_are_escaped(tmp_path, checkout):
    path = capture(tmp_path / "c", journal=[with_output(name="卷积")])
    variables = dict(os.environ, PYTHONIOENCODING="ascii", LC_ALL="C")
    done = subprocess.run([sys.executable, "-m", "c2step", "show", path], env=variables, cwd=checkout,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"") and b"\\u5377\\u79ef" in done.stdout


def test_arrays_of_objects_are_not_compared(tmp_path, capsys):
    np.save(str(tmp_path / "x.npy"), np.ones(2, np.float32))
    np.save(str(tmp_path / "obj.npy"), np.array([{}, None]), allow_pickle=True)
    np.savez(str(tmp_path / "obj.npz"), x=np.array([{}, None]))
    np.savez(str(tmp_path / "other.npz"), other=np.array([{}, None]))
    for bad in ("obj.npy", "obj.npz", "other.npz"):
        for pair in ((bad, "x.npy"), ("x.npy", bad)):
            assert main(["compare"] + [str(tmp_path / name) for name in pair]) in (2, 7)
            out, err = capsys.readouterr()
            assert out == "" and bad in err and "it holds Python objects, no numbers" in err
