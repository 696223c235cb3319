"""The session outlives the operator: deaths, time limits, wrong values, names that break files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
import warnings

import numpy as np
import pytest

import c2step
from c2step.errors import InputError, ModelError, OperatorError, RuntimeMissing, WorkerDied
from small_nets import make_net, written


def case(shared, name):
    return os.path.join(shared, "cases", name)


def opened(shared, name, **options):
    folder = case(shared, name)
    return c2step.open(folder, [os.path.join(folder, "inputs.npz")], **options)


def test_a_constant_that_kills_the_converter_is_rewritten_and_said(shared):
    folder = case(shared, "24_constant_value_float_segv")
    with opened(shared, "24_constant_value_float_segv") as session:
        assert any("SIGSEGV" in note and "Constant" in note for note in session.model.notes)
        assert session.cont().reason == "end"
        with open(os.path.join(folder, "ref_names.json")) as file:
            names = json.load(file)
        values = np.load(os.path.join(folder, "ref.npz"))
        for name, key in zip(names, values.files):
            np.testing.assert_allclose(session.fetch(name).array, values[key], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "index", "kind", "signal_name", "kept"),
    [
        ("25_int_div_by_zero_sigfpe", 1, "Div", "SIGFPE", "s"),
        ("30_scatter_assign_oob_segv", 1, "ScatterAssign", "SIGSEGV", "t"),
    ],
)
def test_an_operator_that_kills_its_process(shared, name, index, kind, signal_name, kept):
    with opened(shared, name) as session:
        session.step()
        before = session.fetch(kept).array
        stop = session.cont()
        assert (stop.reason, stop.position, session.status(index)) == ("died", index, "D")
        assert signal_name in stop.detail and kind in stop.detail and "operator %d" % index in stop.detail
        np.testing.assert_array_equal(session.fetch(kept).array, before)
        assert session.skip().position == index + 1 and session.status(index) == "S"
        assert session.back().position == 0
        assert session.step().reason == "step"
        np.testing.assert_array_equal(session.fetch(kept).array, before)


def test_an_output_that_cannot_be_fetched(shared):
    with opened(shared, "27_maxpool_stride0_fetch_segv") as session:
        stop = session.cont()
        assert (stop.reason, stop.position) == ("failed", 1)
        assert "SIGSEGV" in stop.detail and "-2147483648" in stop.detail
        np.testing.assert_array_equal(session.fetch("r").array, np.maximum(session.fetch("x").array, 0))


def test_a_failed_operator_leaves_the_older_value_and_says_so(shared):
    with opened(shared, "50_failed_op_keeps_old_value") as session:
        stop = session.cont()
        assert (stop.reason, stop.position, session.status(1)) == ("failed", 1, "F")
        assert "input channels does not match" in stop.detail and "y@1 is still the older value" in stop.detail
        assert session.version("y") == 1 and session.fetch("y").array.tolist() == [7, 7, 7]
        assert session.steps[-1].index == 0


def test_big_endian_input_is_read_right(shared):
    folder = case(shared, "51_big_endian_feed")
    with opened(shared, "51_big_endian_feed") as session:
        assert any("byte order" in note for note in session.notes)
        session.cont()
        np.testing.assert_array_equal(session.fetch("x").array, np.load(os.path.join(folder, "inputs.npz"))["x"])


def test_a_float64_input_is_named_and_can_be_cast(shared):
    with opened(shared, "52_wrong_feed_dtype") as session:
        assert any("data is float64" in note for note in session.notes)
        assert "data is float64" in session.cont().detail
    with opened(shared, "52_wrong_feed_dtype", as_float32=True) as session:
        assert session.cont().reason == "end"


def test_a_declared_input_of_another_shape_or_name_is_refused(models):
    model = os.path.join(models, "digits_cnn", "model.onnx")
    with open(model, "rb"), np.load(os.path.join(models, "digits_cnn", "input.npz")) as archive:
        (name, array), *_ = archive.items()
    with pytest.raises(InputError, match="shape"):
        c2step.open(model, {name: array[:, :, :-1]})
    with pytest.raises(InputError, match="NHWC"):
        c2step.open(model, {name: np.zeros((1, 8, 8, 1), np.float32)})
    with pytest.raises(InputError, match="no input"):
        c2step.open(model, {name + "s": array})
    with pytest.raises(InputError, match="dtype"):
        c2step.open(model, {name: array.astype(np.int32)})


def test_a_net_for_cuda_runs_here_and_says_what_was_mapped(shared):
    with opened(shared, "53_net_level_device_lost") as session:
        assert any("CPU" in note for note in session.model.notes)
        assert session.cont().reason == "end"
        np.testing.assert_array_equal(session.fetch("y").array, -np.maximum(session.fetch("x").array, 0))


def test_an_undeclared_input_is_said_and_can_be_fed(shared):
    with opened(shared, "56_external_input_incomplete") as session:
        assert any("data" in note for note in session.model.notes)
        assert session.cont().reason == "end"


def test_an_input_without_a_value(shared):
    with opened(shared, "57_missing_input_value") as session:
        assert session.unfed() == ["bias_typo"]
        stop = session.cont()
        assert (stop.reason, stop.position) == ("failed", 1) and "bias_typo" in stop.detail
        session.feed("bias_typo", np.array([1, 2], np.float32))
        assert session.cont().reason == "end"
        np.testing.assert_array_equal(session.fetch("y").array, session.fetch("r").array + np.array([1, 2], np.float32))


def test_an_onnx_file_as_a_net_and_a_cut_net(shared, tmp_path):
    folder = case(shared, "58_onnx_file_as_netdef")
    with pytest.raises(ModelError, match="ONNX"):
        c2step.open(predict_net=os.path.join(folder, "predict_net.pb"))
    with c2step.open(predict_net=os.path.join(folder, "cut.pb")) as session:
        assert any("cut short" in note for note in session.model.notes)
    with open(os.path.join(case(shared, "45_inplace_chain"), "predict_net.pb"), "rb") as file:
        whole = file.read()
    for size in (len(whole) - 1, 20):
        cut = tmp_path / "cut.pb"
        cut.write_bytes(whole[:size])
        with pytest.raises(ModelError, match="cut short"):
            c2step.open(predict_net=str(cut))
    (tmp_path / "empty.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="empty"):
        c2step.open(predict_net=str(tmp_path / "empty.pb"))
    with pytest.raises(ModelError, match="swapped"):
        swapped = case(shared, "45_inplace_chain")
        c2step.open(init_net=swapped + "/predict_net.pb", predict_net=swapped + "/init_net.pb")
    written([("ConstantFill", ["w"], ["g"], {}), ("Mul", ["x", "g"], ["y"], {})], ["x", "w"], tmp_path)
    os.rename(str(tmp_path / "predict_net.pb"), str(tmp_path / "computes.pb"))
    filling = [("ConstantFill", [], ["w"], {"shape": [1]}), ("ConstantFill", ["w"], ["g"], {})]
    with pytest.raises(ModelError, match="swapped"):  # a net that fills may read what it filled
        c2step.open(init_net=str(tmp_path / "computes.pb"), predict_net=written(filling, [], tmp_path))


def test_a_text_net_as_editors_on_windows_write_it(tmp_path):
    text = str(make_net([("Relu", ["x"], ["y"], {})], ["x"])).replace("\n", "\r\n")
    (tmp_path / "predict_net.pbtxt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    with c2step.open(str(tmp_path), inputs={"x": np.array([-1, 2], np.float32)}, in_process=True) as session:
        session.cont()
        assert session.fetch("y").array.tolist() == [0, 2]


def test_an_operator_without_its_database_can_be_skipped(shared):
    with opened(shared, "59_lmdb_op_unavailable") as session:
        stop = session.cont()
        assert (stop.reason, stop.position) == ("failed", 0) and "lmdb" in stop.detail
        session.skip(2)
        assert session.status(0) == session.status(1) == "S" and session.version("data") == 0
        session.feed("data", np.ones((2, 1, 5, 5), np.float32))
        assert session.step().reason == "step" and session.steps[0].index == 2


def test_init_net_that_fails_is_named(shared):
    folder = case(shared, "32_given_fill_count_mismatch")
    with pytest.raises(OperatorError, match="init_net operator 0 GivenTensorFill.*16 vs 3"):
        c2step.open(folder)


def test_external_data_from_any_folder(shared, tmp_path, monkeypatch):
    folder = case(shared, "65_external_data_weights")
    monkeypatch.chdir(tmp_path)
    with opened(shared, "65_external_data_weights") as session:
        session.cont()
        weights = np.fromfile(os.path.join(folder, "weights.bin"), np.float32)
        x = session.fetch("x").array
        expected = np.maximum(x @ weights[: x.shape[1] * 8].reshape(x.shape[1], 8), 0)
        np.testing.assert_allclose(session.fetch("y").array, expected, rtol=1e-5, atol=1e-6)
    shutil.copy(os.path.join(folder, "model.onnx"), str(tmp_path))
    with pytest.raises(ModelError, match="weights.bin"):
        c2step.open(str(tmp_path / "model.onnx"))


def slow_net(folder, operators=400, size=700):
    """A net that takes a few seconds: a chain of matrix products."""
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core

    net = caffe2_pb2.NetDef(name="slow", external_input=["m0"], external_output=["m%d" % operators])
    for i in range(operators):
        net.op.add().CopyFrom(core.CreateOperator("MatMul", ["m%d" % i, "m0"], ["m%d" % (i + 1)]))
    path = os.path.join(str(folder), "predict_net.pb")
    with open(path, "wb") as file:
        file.write(net.SerializeToString())
    return path, {"m0": (np.eye(size) * 0.999).astype(np.float32)}


def test_interrupt_stops_between_operators(tmp_path):
    path, inputs = slow_net(tmp_path)
    with c2step.open(inputs=inputs, predict_net=path) as session:
        session.on_step = lambda step: session.interrupt() if step.index == 5 else None
        stop = session.cont()
        assert stop.reason == "interrupted" and 6 <= stop.position < 400
        assert len(session.steps) == stop.position
        assert session.step().reason == "step"


def test_a_worker_killed_from_outside_loses_nothing(tmp_path):
    path, inputs = slow_net(tmp_path, operators=60)
    with c2step.open(inputs=inputs, predict_net=path) as session:
        session.on_step = lambda step: os.kill(session.workspace.pid, signal.SIGKILL) if step.index == 9 else None
        stop = session.cont()
        assert stop.reason == "died" and "SIGKILL" in stop.detail
        done = len(session.steps)
        assert done >= 10 and stop.position == done
        session.on_step = lambda step: None
        assert [row["status"] for row in read_journal(session)] == ["ok"] * done + ["died"]
        assert session.cont().reason == "end"
        expected = np.linalg.matrix_power(inputs["m0"].astype(np.float64), 61)
        np.testing.assert_allclose(session.fetch("m60").array, expected, rtol=1e-3, atol=1e-6)


def read_journal(session):
    with open(os.path.join(session.capture_directory, "journal.jsonl")) as file:
        return [json.loads(line) for line in file]


def test_a_worker_that_ended_while_idle_comes_back_unnoticed(models):
    with c2step.open(os.path.join(models, "digits_cnn", "model.onnx"), [models + "/digits_cnn/input.npz"]) as session:
        session.step(3)
        before = session.fetch("relu1").array
        os.kill(session.workspace.pid, signal.SIGKILL)
        time.sleep(0.1)
        np.testing.assert_array_equal(session.fetch("relu1").array, before)
        os.kill(session.workspace.pid, signal.SIGKILL)
        time.sleep(0.1)
        assert session.cont().reason == "end"


def test_an_operator_over_its_time_limit_is_stopped(tmp_path):
    path, inputs = slow_net(tmp_path, operators=3, size=4000)
    with c2step.open(inputs=inputs, predict_net=path, timeout=0.3) as session:
        stop = session.step()
        assert (stop.reason, stop.position) == ("timeout", 0) and "0.3 s" in stop.detail


def test_a_second_ctrl_c_stops_the_operator_itself(tmp_path):
    path, inputs = slow_net(tmp_path, operators=2, size=5000)
    with c2step.open(inputs=inputs, predict_net=path) as session:
        main = threading.main_thread().ident
        assert main
        for delay in (0.5, 0.8):
            threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT)).start()
        stop = session.cont()
        assert (stop.reason, stop.position) == ("interrupted", 0) and "Ctrl-C" in stop.detail


def test_a_runtime_without_caffe2_is_named(front_only, models):
    with pytest.raises(c2step.C2StepError, match="Caffe2|does not start"):
        c2step.open(os.path.join(models, "digits_cnn", "model.onnx"), runtime="python:" + front_only)


def test_a_worker_that_dies_in_conversion_names_the_node(models, monkeypatch):
    from c2step.workspace.process import ProcessWorkspace
    from c2step.workspace.runtime import find_runtime

    workspace = ProcessWorkspace(find_runtime())
    try:
        workspace.versions()
        status = workspace._status
        status.enter(1, 3, "Constant bad")
        os.kill(workspace.pid, signal.SIGSEGV)
        time.sleep(0.1)
        with pytest.raises(WorkerDied, match="converting ONNX node 3 Constant bad ended its process with SIGSEGV"):
            workspace.peek()
    finally:
        workspace.close()


def random_nets(folder):
    """init_net draws a weight; predict_net copies it before and after an operator that ends the process."""
    from caffe2.python import core

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Caffe2's own, of numpy's old names
        init, net = core.Net("init"), core.Net("net")
        init.XavierFill([], "w", shape=[2, 3])
        init.GivenTensorIntFill([], "p", shape=[2], values=[1, 2])
        init.GivenTensorIntFill([], "z", shape=[2], values=[0, 0])
        net.Copy("w", "a")
        net.Div(["p", "z"], "q")
        net.Copy("w", "b")
    for name, made in (("init_net.pb", init), ("predict_net.pb", net)):
        with open(os.path.join(str(folder), name), "wb") as file:
            file.write(made.Proto().SerializeToString())
    return str(folder)


def test_what_init_net_drew_stays_through_death_back_and_restart(tmp_path):
    with c2step.open(random_nets(tmp_path)) as session:
        assert any("w at random" in note for note in session.notes)
        assert any("nothing reads: a, q, b" in note for note in session.model.notes)
        drawn = session.fetch("w").array
        assert session.cont().reason == "died"
        np.testing.assert_array_equal(session.fetch("w").array, drawn)
        session.skip()
        session.cont()
        np.testing.assert_array_equal(session.fetch("a").array, session.fetch("b").array)
        session.restart()
        np.testing.assert_array_equal(session.fetch("w").array, drawn)


def test_an_interpreter_without_numpy_is_said_in_one_line(models, tmp_path):
    bare = str(tmp_path / "bare")
    venv.create(bare, symlinks=True)
    with pytest.raises(RuntimeMissing, match="numpy"):
        c2step.open(os.path.join(models, "digits_cnn", "model.onnx"), runtime="python:" + bare)


def test_a_dimension_that_no_input_has(models):
    with pytest.raises(InputError, match="no input has this symbolic dimension"):
        c2step.open(os.path.join(models, "digits_cnn", "model.onnx"), dims={"M": 3})


@pytest.mark.parametrize("verb", ["back", "restart", "feed", "describe", "step", "fetch", "skip"])
def test_whatever_comes_first_after_an_idle_death(models, verb):
    folder = os.path.join(models, "digits_native")
    with c2step.open(folder, [folder + "/input.npz"]) as session:
        session.step(4)
        name = session.steps[-1].outputs[0].name
        value = session.fetch(name).array
        os.kill(session.workspace.pid, signal.SIGKILL)
        time.sleep(0.1)
        act = {
            "back": session.back,
            "restart": session.restart,
            "feed": lambda: session.feed(name, value),
            "describe": lambda: session.describe(0),
            "step": session.step,
            "fetch": lambda: session.fetch(name),
            "skip": session.skip,
        }
        act[verb]()
        while session.position < 4:
            session.step()
        if verb not in ("step", "feed"):
            np.testing.assert_array_equal(session.fetch(name).array, value)


def test_scratch_folders_of_killed_fronts_are_swept(models, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = tmp_path / ("c2step-%d-left" % dead.pid)
    left.mkdir()
    (left / "status").write_bytes(b"")
    with c2step.open(os.path.join(models, "digits_cnn", "model.onnx"), seed=0, dims={"N": 1}):
        assert not left.exists()
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_front_that_is_asked_to_end_cleans_up(models, tmp_path, sent, checkout):
    words = [sys.executable, "-m", "c2step", os.path.join(models, "digits_cnn", "model.onnx"), "--random-inputs", "0"]
    words += ["--dim", "N=1", "-c", "!import time; print('here', flush=True); time.sleep(60)"]
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    front = subprocess.Popen(words, env=environment, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with front:
        assert front.stdout
        while b"here" not in front.stdout.readline() and front.poll() is None:
            pass
        front.send_signal(sent)
        assert front.wait(30) == 128 + sent
    assert os.listdir(str(tmp_path)) == []


def test_an_input_that_only_a_net_inside_reads(tmp_path):
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core

    inner = caffe2_pb2.NetDef(name="then", external_input=["x"], external_output=["y"])
    inner.op.add().CopyFrom(core.CreateOperator("Copy", ["x"], ["y"]))
    net = caffe2_pb2.NetDef(name="outer", external_input=["c", "x"], external_output=["y"])
    net.op.add().CopyFrom(core.CreateOperator("If", ["c"], ["y"]))
    argument = net.op[0].arg.add(name="then_net")
    argument.n.CopyFrom(inner)
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    x = np.arange(3, dtype=np.float32)
    with c2step.open(str(tmp_path), {"c": np.array([True]), "x": x}) as session:
        assert [declared.name for declared in session.model.inputs] == ["c", "x"] and not session.unfed()
        assert session.cont().reason == "end"
        np.testing.assert_array_equal(session.fetch("y").array, x)
