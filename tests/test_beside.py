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
from c2step.workspace import reader
from c2step.workspace.storage import Storage

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


def test_each_job_is_let_go_of_before_the_next_one():
    alive = []
    jobs = [Counted(alive) for _ in range(5)]
    apart = Apart(jobs, False)
    del jobs
    assert apart.results() == [5, 4, 3, 2, 1]


class Counted:
    """A job that says how many of its kind are there."""

    def __init__(self, alive):
        self.alive = alive
        alive.append(self.__class__)

    def __call__(self):
        return len(self.alive)

    def __del__(self):
        self.alive.pop()


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


# -- the second run -------------------------------------------------------------------------------


def digits(shared, **options):
    folder = os.path.join(shared, "models", "digits_cnn_bn-op9")
    return c2step.open(os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], **options)


def every_value(session):
    """The bytes of all that the steps of a session wrote."""
    return [session.kept(out).array.tobytes() for step in session.steps for out in step.outputs]


def test_init_net_need_not_run_again_where_nothing_is_kept(shared, monkeypatch):
    with digits(shared, in_process=True) as session:
        session.cont()
        first = every_value(session)
        monkeypatch.setattr(session.workspace, "init", lambda: pytest.fail("init_net runs again"))
        session.anew(default_keep())
        assert (session.position, session.steps) == (0, [])
        session.cont()
        assert every_value(session) == first and len(first) > 9


def test_a_blame_is_two_requests_to_the_worker_and_moves_no_value_twice(shared, tmp_path, monkeypatch):
    with digits(shared) as session:
        reference = make_reference(session, "onnxruntime", str(tmp_path / "golden"))
        before = session.workspace.requests
        assert blame(session, reference).tally.compared == 10
        assert session.workspace.requests - before == 2
    with digits(shared, in_process=True) as session:
        monkeypatch.setattr(reader, "feed", lambda *words: pytest.fail("a value is fed"))
        assert blame(session, reference).tally.compared == 10


def test_init_net_runs_again_where_it_may_matter(shared, monkeypatch):
    with digits(shared, in_process=True) as session:
        session.cont()
        session.feed(session.model.inputs[0].name, session.inputs[session.model.inputs[0].name] + 1)
        assert not session._timeline.repeatable()  # a value was fed
        session.restart(default_keep())
        assert not session._timeline.repeatable()  # nothing has run
        session.step(3)
        assert not session._timeline.repeatable()  # not all of it has
        session.cont()
        assert session._timeline.repeatable()
        ran = []
        monkeypatch.setattr(session.workspace, "init", lambda init=session.workspace.init: (ran.append(1), init()))
        session.patch(session.model.inputs[0].name, np.zeros_like(session.inputs[session.model.inputs[0].name]))
        session.anew(default_keep())
        assert ran


def test_a_worker_that_ends_in_the_second_run_comes_back_where_it_stood(shared):
    with digits(shared) as session:
        session.cont()
        first = every_value(session)
        session.anew(default_keep())
        session.step(4)
        os.kill(session.workspace.pid, signal.SIGKILL)
        session.cont()
        assert every_value(session) == first


def test_golden_values_go_into_tensors_as_if_they_were_fed(shared, tmp_path, monkeypatch):
    """Each operator then runs on values that are not its own net's: those of the run on another input."""
    found = []
    for in_place in (True, False):
        with digits(shared, in_process=True) as session:
            if not in_place:
                monkeypatch.setattr(type(session.workspace), "_overwritten", lambda self, value: False)
            name = session.model.inputs[0].name
            keep = default_keep(str(tmp_path / str(in_place)))
            session.restart(keep, {name: session.inputs[name] * 0.5})
            session.cont()
            plan = {s.index: [(o.name, session.history.kept[o.name, o.version]) for o in s.outputs]
                    for s in session.steps}  # fmt: skip
            session.restart(default_keep(), {name: session.inputs[name] * 2})
            session.replace_after(plan)
            session.cont()
            found.append(every_value(session))
    assert found[0] == found[1]


def test_memory_that_two_blobs_share_is_no_place_for_a_golden_value():
    arrays = {name: np.zeros(8, np.float32) for name in "ab"}
    storage = Storage()
    for name, array in arrays.items():
        storage.put(name, array.ctypes.data, array.ctypes.data + array.nbytes)
    assert storage.holds("a", arrays["a"])
    assert not storage.holds("a", arrays["b"]) and not storage.holds("c", arrays["b"])
    storage.put("part of a", arrays["a"].ctypes.data + 4, arrays["a"].ctypes.data + 8)
    assert not storage.holds("a", arrays["a"])


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
