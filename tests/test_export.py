"""What other tools read: annotated models, TensorBoard runs, tables; each read back by that tool itself."""

import csv
import io
import os
import re
import shutil
import socket

import numpy as np
import pytest

from c2step.blob import TENSOR, Blob
from c2step.capture import Capture
from c2step.cli import main
from c2step.errors import UsageError
from c2step.export import tables
from c2step.net import Net
from c2step.report import open_source
from conftest import absent
from report_support import browser, ceil_blame, once


@pytest.fixture(scope="module")
def ceil(models, tmp_path_factory):
    """A blame's folder: MaxPool with ceil_mode, which Caffe2 ignores."""
    return once(tmp_path_factory, "ceil", lambda folder: ceil_blame(folder, models))


@pytest.fixture(scope="module")
def annotated(ceil, models, tmp_path_factory):
    out = str(tmp_path_factory.mktemp("annotated") / "out.onnx")
    assert main(["annotate", os.path.join(models, "digits_ceil", "model.onnx"), ceil, "-o", out]) == 0
    return out


# -- annotate --------------------------------------------------------------------------------------


def test_an_annotated_model_passes_the_checker_and_computes_the_same(annotated, models):
    import onnx
    import onnxruntime

    onnx.checker.check_model(onnx.load(annotated), full_check=True)
    folder = os.path.join(models, "digits_ceil")
    given = dict(np.load(folder + "/input.npz"))
    before, after = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
        for path in (folder + "/model.onnx", annotated)
    )
    assert [a.tobytes() for a in before] == [b.tobytes() for b in after]


def test_nodes_say_label_and_error(annotated):
    import onnx

    nodes = {node.output[0]: node for node in onnx.load(annotated).graph.node}
    assert nodes["pool1"].doc_string.startswith("ORIGIN shape (4, 8, 3, 3) against (4, 8, 4, 4)")
    assert nodes["conv1"].doc_string.startswith("OK\nCaffe2 operator 0 Conv\nconv1: float32 (4, 8, 8, 8)")
    found = {p.key: p.value for p in nodes["pool1"].metadata_props}
    assert found["c2step.label"] == "ORIGIN" and found["c2step.operators"] == "2 MaxPool"


def test_annotating_twice_says_it_once_and_keeps_what_was_said(ceil, models, tmp_path):
    import onnx

    model = onnx.load(os.path.join(models, "digits_ceil", "model.onnx"))
    model.graph.node[0].doc_string = "from the trainer"
    paths = [str(tmp_path / name) for name in ("0.onnx", "1.onnx", "2.onnx")]
    onnx.save(model, paths[0])
    for before, after in zip(paths, paths[1:]):
        assert main(["annotate", before, ceil, "-o", after, "--mark-names"]) == 0
    node = onnx.load(paths[2]).graph.node[0]
    assert node.doc_string.count("Caffe2 operator") == 1 and node.doc_string.endswith("from the trainer")
    assert len(node.metadata_props) == len({p.key for p in node.metadata_props})
    assert node.name == "OK conv1"


def test_a_capture_of_another_model_is_refused(ceil, shared, capsys):
    other = os.path.join(shared, "models", "mnist-cntk", "model.onnx")
    assert main(["annotate", other, ceil, "-o", os.devnull + ".onnx"]) == 2
    assert "annotate the model that was run" in capsys.readouterr().err


def test_netron_shows_the_label(annotated):
    netron = pytest.importorskip("netron")
    if not shutil.which("chromium"):
        absent("there is no chromium")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    here = "http://127.0.0.1:%d/" % port
    netron.start(annotated, ("127.0.0.1", port), browse=False)
    try:
        with browser() as running:
            tab = running.new_page(viewport={"width": 1200, "height": 900})
            quiet_netron(tab, here)
            tab.goto(here)
            tab.locator("#target g.node", has_text="MaxPool").first.click()
            tab.wait_for_selector("text=Metadata >> visible=true")
            assert "ORIGIN" in tab.inner_text("body").split()
    finally:
        netron.stop(("127.0.0.1", port))


def quiet_netron(tab, here):
    """Let Netron ask nobody anything: a development version that is of today, and consent as given."""

    def page(route):
        answer = route.fetch()
        text = re.sub(r'(name="version" content=")[^"]*', r"\g<1>0.0.0", answer.text())
        route.fulfill(response=answer, body=re.sub(r'(name="date" content=")[^"]*', r"\g<1>2999-01-01 00:00:00", text))

    tab.route("**/*", lambda route: route.continue_() if route.request.url.startswith(here) else route.abort())
    tab.route(here, page)
    tab.context.add_cookies([{"name": "consent", "value": "1", "url": here}])


# -- TensorBoard -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_tensorboards_own_loader_finds_runs_images_and_histograms(ceil, tmp_path):
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_multiplexer")
    other = str(tmp_path / "other")
    shutil.copytree(ceil, other)
    assert main(["tensorboard", ceil, other, "-o", str(tmp_path / "logs")]) == 0
    multiplexer = loading.EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "logs"))
    multiplexer.Reload()
    runs = multiplexer.Runs()
    assert sorted(runs) == ["kept", "other"] and runs["kept"]["graph"]
    capture = Capture(ceil)
    conv = capture.load("conv1").array
    assert "000 Conv/conv1 maps" in runs["kept"]["images"]
    (event,) = multiplexer.Histograms("kept", "000 Conv/conv1")
    shown = event.histogram_value
    assert (shown.num, shown.min, shown.max) == (conv.size, conv.min(), conv.max())
    means = {event.step: event.value for event in multiplexer.Scalars("kept", "values/mean")}
    assert means[0] == pytest.approx(conv.mean(dtype=np.float64)) and sorted(means) == list(range(9))
    image = multiplexer.Images("kept", "000 Conv/conv1 maps")[0]
    assert image.encoded_image_string.startswith(b"\x89PNG")
    nodes = {node.name: list(node.input) for node in multiplexer.Graph("kept").node}
    assert nodes["001_Relu_relu1"] == ["000_Conv_conv1"]


# -- tables ----------------------------------------------------------------------------------------


def test_csv_of_a_capture_and_of_a_model(ceil, models, capsys):
    assert main(["show", ceil, "--csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    array = Capture(ceil).load("relu1").array
    assert (found[1]["blob"], found[1]["shape"], int(found[1]["zeros"])) == ("relu1", "4x8x8x8", (array == 0).sum())
    assert main(["show", os.path.join(models, "digits_ceil", "model.onnx"), "--csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["type"] for row in found if row["net"] == "predict_net"][:3] == ["Conv", "Relu", "MaxPool"]


def test_frames(ceil):
    pandas = pytest.importorskip("pandas")
    capture = Capture(ceil)
    frame = tables.frame(capture)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["blob"]) == capture.names() and frame["nan"].sum() == 0


def test_notebooks_show_nets_blobs_and_verdicts(ceil):
    from c2step.compare import measure

    capture = Capture(ceil)
    assert "<td style='text-align:left'>MaxPool</td>" in Net.from_json(capture.header["net"])._repr_html_()
    blob = capture.load("conv1")
    assert "4, 8, 8, 8" in blob._repr_html_() and "<pre>" in blob._repr_html_()
    large = Blob("x", TENSOR, np.random.RandomState(0).randn(8, 16, 32, 32).astype(np.float32))
    assert len(large._repr_html_()) < 2500
    shown = capture._repr_html_()
    assert shown.count("<tr>") == 10 and "pool1@1" in shown and "(4, 8, 3, 3)" in shown
    assert "FAIL" in measure(np.ones(3), np.zeros(3))._repr_html_()
    assert "&lt;b&gt;" in Net("<b>", ())._repr_html_()


# -- captures that are none, or of another model ---------------------------------------------------


@pytest.mark.parametrize("command", ["report", "tensorboard", "annotate"])
def test_what_is_no_capture_is_refused(ceil, models, tmp_path, capsys, command):
    from c2step.references.archive import make_archive

    (tmp_path / "empty").mkdir()
    (tmp_path / "text.json").write_text('{"verdict": "PASS", "operators": [{}]}')
    made = make_archive(str(tmp_path / "archive"), {"golden": os.path.join(ceil, "golden")})
    model = os.path.join(models, "digits_ceil", "model.onnx")
    out = str(tmp_path / "out")
    for path, status, words in [
        (tmp_path / "nosuch", 7, "there is no"),
        (tmp_path / "nosuch.json", 7, "there is no"),
        (tmp_path / "empty", 7, "is no capture"),
        (os.path.dirname(model), 7, "is no capture"),
        (made.path, 7, os.path.join(made.path, "cases", "golden")),
        (tmp_path / "text.json", 2, "is no blame"),
    ]:
        before = [model] if command == "annotate" else []
        assert main([command, *before, str(path), "-o", out]) == status, path
        assert words in capsys.readouterr().err and not os.path.exists(out)


@pytest.fixture(scope="module")
def reweighted(models, tmp_path_factory):
    """The model that was run with one weight changed: the same nodes, another result."""
    import onnx

    path = str(tmp_path_factory.mktemp("reweighted") / "model.onnx")
    model = onnx.load(os.path.join(models, "digits_ceil", "model.onnx"))
    weight = next(t for t in model.graph.initializer if t.name == "conv1_w")
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 2, "conv1_w"))
    onnx.save(model, path)
    return path


def test_the_capture_of_another_model_annotates_nothing(ceil, models, reweighted, tmp_path, capsys):
    out = str(tmp_path / "a.onnx")
    for other in (os.path.join(models, "digits_cnn", "model.onnx"), reweighted):
        assert main(["annotate", other, ceil, "-o", out]) == 2
        shown = capsys.readouterr()
        assert "is not the model of" in shown.err and "annotated" not in shown.out and not os.path.exists(out)


def test_channels_of_two_models_are_not_merged(models, reweighted, tmp_path, capsys):
    given = os.path.join(models, "digits_ceil", "input.npz")
    for name, model in (("one", os.path.join(models, "digits_ceil", "model.onnx")), ("two", reweighted)):
        assert main(["dump", model, "--input", given, "-o", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert main(["channels", str(tmp_path / "one"), str(tmp_path / "two")]) == 2
    assert "two models" in capsys.readouterr().err
    assert main(["channels", str(tmp_path / "one"), str(tmp_path / "one")]) == 0
    assert main(["channels", str(tmp_path / "one"), "--axis", "5"]) == 2
    assert "axis 5" in capsys.readouterr().err


def test_what_is_kept_names_the_reference_as_it_was_asked_for(models, tmp_path):
    folder = os.path.join(models, "digits_cnn")
    kept = str(tmp_path / "kept")
    assert main(["blame", folder + "/model.onnx", "--input", folder + "/input.npz", "--against", "onnxruntime",
                 "--keep", kept]) == 0  # fmt: skip
    assert open_source(kept).reference["source"] == "onnxruntime"
    assert Capture(os.path.join(kept, "golden")).header["source"] == "onnxruntime"


def test_what_cannot_be_written_is_said(ceil, models, tmp_path, capsys):
    """A plain file where a folder should be, a full disk, standard output."""
    (tmp_path / "file").write_text("")
    (tmp_path / "m.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(2, 2)\ndef no():\n    return 3\n"
    )
    np.save(str(tmp_path / "x.npy"), np.zeros((1, 2), np.float32))
    np.save(str(tmp_path / "bad.npy"), np.zeros((1, 3), np.float32))
    under, made = str(tmp_path / "file" / "m.onnx"), "%s:%%s" % (tmp_path / "m.py")
    given, bad = (["--input", "input=%s" % (tmp_path / name)] for name in ("x.npy", "bad.npy"))
    model, out = os.path.join(models, "digits_ceil", "model.onnx"), str(tmp_path / "o.onnx")
    for words, status in [
        (["annotate", model, ceil, "-o", under], 7),
        (["report", ceil, "-o", under], 7),
        (["report", ceil, "-o", "/dev/full"], 7),
        (["report", ceil, "-o", "-"], 2),
        (["export-torch", made % "make", *given, "-o", under], 7),
        (["export-torch", made % "nothing", *given, "-o", out], 2),
        (["export-torch", made % "no", *given, "-o", out], 2),
        (["export-torch", made % "make", *bad, "-o", out], 2),
    ]:
        assert main(words) == status, words
        assert "level stats" not in capsys.readouterr().err
    assert not os.path.exists(out) and not os.path.exists("-")


@pytest.mark.filterwarnings("ignore")
def test_a_tensorboard_run_is_replaced_and_what_is_unreadable_said(ceil, tmp_path, capsys):
    pytest.importorskip("tensorboardX")
    copy, logs = str(tmp_path / "copy"), tmp_path / "logs"
    shutil.copytree(ceil, copy)
    file = Capture(copy).find("conv1").file
    with open(os.path.join(copy, file), "wb") as stream:
        stream.write(b"nothing")
    for _ in range(2):
        assert main(["tensorboard", copy, "-o", str(logs)]) == 0
    assert "the value of conv1 of operator 0 cannot be read" in capsys.readouterr().err
    assert len([name for name in os.listdir(str(logs / "copy")) if "tfevents" in name]) == 1
    (tmp_path / "file").write_text("")
    assert main(["tensorboard", ceil, "-o", str(tmp_path / "file")]) == 7


def test_a_frame_of_something_else_is_refused():
    with pytest.raises(UsageError, match="no capture, net or blame"):
        tables.frame("kept")
