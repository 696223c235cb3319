"""What goes on beside a blame: an engine that was started ahead, and comparisons in a process of their own."""

import os
import signal
import sys

import numpy as np
import onnx
import pytest

import c2step
from c2step.compare import blame as blaming
from c2step.compare.apart import Apart
from c2step.compare.blame import blame
from c2step.compare.loading import begin_reference, engine_ahead, make_reference
from c2step.errors import ReferenceFailed, WorkerDied
from c2step.launch import default_keep
from c2step.references import Engine, onnxruntime_ahead
from c2step.references.making import GoldenCapture, OnnxRuntime

# -- a process of its own -----------------------------------------------------------------------


def test_results_come_in_order_from_another_process():
    apart = Apart([lambda n=n: (n, os.getpid()) for n in range(20)])
    found = apart.results()
    assert [n for n, _ in found] == list(range(20))
    assert len({pid for _, pid in found}) == 1 and found[0][1] != os.getpid()


@pytest.mark.parametrize("forked", [False, True])
def test_a_job_that_raises_raises_where_it_is_asked_for(forked):
    with pytest.raises(ZeroDivisionError):
        Apart([lambda: 1, lambda: 1 // 0], forked).results()


def test_what_the_process_did_not_give_is_made_here():
    here = os.getpid()

    def job():
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    assert Apart([job]).results() == [7]


def test_it_ends_where_nobody_asks():
    apart = Apart([lambda: __import__("time").sleep(60)])
    pid = apart._pid
    apart.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    apart.close()


# -- blame --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["digits_cnn_bn-op9", "ultraface-slim-320"])
def test_blame_says_the_same_with_and_without_a_process_beside(shared, tmp_path, monkeypatch, case):
    monkeypatch.setattr(blaming, "_WORTH_A_PROCESS", 0)
    folder = os.path.join(shared, "models", case)
    files = [os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")]]
    with c2step.open(*files) as session:
        reference = make_reference(session, "onnxruntime", str(tmp_path / "one"))
        plain = blame(session, reference).to_json()
        session.restart(default_keep())
        spare = engine_ahead("onnxruntime")
        beside = blame(session, begin_reference(session, "onnxruntime", str(tmp_path / "two"), spare=spare)).to_json()
    assert beside == plain
    assert plain["compared"] >= 10


def test_an_engine_that_was_started_ahead_is_taken_once_and_another_after_its_death(shared, tmp_path):
    folder = os.path.join(shared, "models", "digits_cnn_bn-op9")
    inputs = dict(np.load(os.path.join(folder, "input.npz")))
    spare = onnxruntime_ahead(sys.executable)
    with OnnxRuntime(os.path.join(folder, "model.onnx"), sys.executable) as runtime:
        runtime.spare = spare
        runtime.make(inputs, str(tmp_path / "one"))
        assert runtime.pid == spare.pid and runtime.spare is None
        runtime.buried(WorkerDied("it ended", signal="SIGKILL"))
        runtime.make(inputs, str(tmp_path / "two"))
        assert runtime.pid not in (None, spare.pid)


def test_an_engine_that_nothing_needs_is_closed(shared, tmp_path):
    folder = os.path.join(shared, "models", "digits_cnn_bn-op9")
    spare = engine_ahead("onnxruntime")
    with c2step.open(os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")]) as session:
        golden = str(tmp_path / "golden")
        make_reference(session, "onnxruntime", golden)
        begin_reference(session, golden, str(tmp_path / "none"), spare=spare).result()
    assert spare._process.poll() is not None
    assert engine_ahead(golden) is None and engine_ahead("onnxruntime", "python:/no/such") is None


def test_an_engine_that_cannot_start_says_so_when_it_is_needed(tmp_path):
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec %s -S -I "$@"\n' % sys.executable)
    bare.chmod(0o755)
    engine = onnxruntime_ahead(str(bare))
    with pytest.raises(ReferenceFailed, match="cannot run onnxruntime: ModuleNotFoundError"):
        engine.greet()


# -- weights that stay in their file -------------------------------------------------------------


@pytest.fixture
def heavy(tmp_path):
    """A model with a weight of 256 KB and one of 2 MB, at odd places in its file, and its input."""
    random = np.random.RandomState(0)
    weights = {"w": random.randn(256, 256).astype(np.float32), "v": random.randn(256, 2048).astype(np.float32)}
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.helper.make_node("MatMul", ["y", "v"], ["z"])]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "heavy", [value("x", 1, [3, 256])], [value("z", 1, [3, 2048]), value("w", 1, [256, 256])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    path = str(tmp_path / "heavy.onnx")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 9)], ir_version=6), path)
    return path, {"x": random.randn(3, 256).astype(np.float32)}


def test_weights_that_stay_in_their_file_give_the_same_values(heavy, tmp_path):
    path, inputs = heavy
    made = []
    for light in (False, True):
        capture = GoldenCapture(str(tmp_path / str(light)), inputs)
        capture.begin({})
        with Engine(sys.executable, "onnx_engine", "onnxruntime") as engine:
            engine.ask({"do": "open", "model": path, "inputs": None, "light": light})
            engine.ask(capture.nodes(0), capture.heard)
        capture.writer.close()
        files = [os.path.join(capture.out, capture.values[name]["file"]) for name in ("y", "z", "w")]
        made.append([np.load(file).tobytes() for file in files])
    assert made[0] == made[1]


def test_a_model_that_changes_meanwhile_is_refused(heavy, tmp_path):
    path, inputs = heavy
    capture = GoldenCapture(str(tmp_path / "out"), inputs)
    capture.begin({})
    with Engine(sys.executable, "onnx_engine", "onnxruntime") as engine:
        engine.ask({"do": "open", "model": path, "inputs": None, "light": True})
        os.utime(path, (1, 1))
        with pytest.raises(ReferenceFailed, match="no longer what it was"):
            engine.ask(capture.nodes(0), capture.heard)
    capture.writer.close()
