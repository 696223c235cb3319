"""Wrapping somebody's own Caffe2 code: everything is saved, results and the process stay as they were."""

import contextlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import c2step
from c2step.errors import CaptureError, UsageError
from oracle import same_bytes
from shared_material import CHECKOUT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Caffe2 itself
SCRIPT = os.path.join(CHECKOUT, "tests", "caffe2_script.py")


def script(tmp_path, words, **variables):
    """What a script prints in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=CHECKOUT, **variables)
    command = [sys.executable, "-W", "ignore"] + words
    done = subprocess.run(command, cwd=str(tmp_path), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, universal_newlines=True, timeout=120)  # fmt: skip
    return done


def rows(directory):
    return c2step.open_capture(str(directory)).rows


def convolution(x, weights, bias):
    """The oracle: a convolution with stride 1, padded evenly by what the shapes leave; in float64."""

    def of_pad(pad):
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        high, wide = weights.shape[2:]
        out = np.zeros((x.shape[0], weights.shape[0], padded.shape[2] - high + 1, padded.shape[3] - wide + 1))
        for i in range(high):
            for j in range(wide):
                part = padded[:, :, i : i + out.shape[2], j : j + out.shape[3]]
                out += np.einsum("nchw,oc->nohw", part, weights[:, :, i, j].astype(np.float64))
        return out + bias.reshape(1, -1, 1, 1)

    return of_pad


@pytest.fixture(scope="module")
def digest(tmp_path_factory):
    """What the script's results are without anything of ours."""
    done = script(tmp_path_factory.mktemp("plain"), [SCRIPT])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plain_script_is_saved_and_gives_the_same(tmp_path, digest):
    done = script(tmp_path, [SCRIPT, "--wrapped", "out"])
    assert (done.returncode, done.stdout) == (0, digest)
    found = rows(tmp_path / "out")
    count = {}
    for row in found:
        key = (row["net"], row["type"], row["status"])
        count[key] = count.get(key, 0) + 1
    assert count == {
        ("small", "Conv", "ok"): 15, ("small", "MaxPool", "ok"): 5, ("early", "Conv", "ok"): 1,
        ("once", "Conv", "ok"): 1, ("", "Conv", "ok"): 1, ("", "Conv", "failed"): 1, ("planned", "Conv", "ok"): 2,
        ("predict", "Conv", "ok"): 1,
    }  # fmt: skip
    for row in found:
        if row["type"] == "Conv" and row["status"] == "ok":
            x, weights, bias = (np.load(str(tmp_path / "out" / entry["file"])) for entry in row["inputs"])
            (out,) = (np.load(str(tmp_path / "out" / entry["file"])) for entry in row["outputs"])
            pad = (out.shape[2] - x.shape[2] + weights.shape[2] - 1) // 2
            np.testing.assert_allclose(out, convolution(x, weights, bias)(pad), rtol=1e-4, atol=1e-4)


def test_the_debug_switch_for_an_unchanged_script(tmp_path, digest):
    done = script(tmp_path, ["-m", "c2step.wrap", SCRIPT], C2STEP="dump:out", C2STEP_TYPES="Dropout,Max*")
    assert (done.returncode, done.stdout) == (0, digest), done.stderr
    assert {row["type"] for row in rows(tmp_path / "out")} == {"Dropout", "MaxPool"}
    assert len(rows(tmp_path / "out")) == 12
    done = script(tmp_path, ["-m", "c2step.wrap", SCRIPT])
    assert (done.returncode, done.stdout) == (0, digest)
    assert sorted(os.listdir(str(tmp_path))) == ["out"]


def test_off_without_a_trace(tmp_path):
    (tmp_path / "look.py").write_text(
        "import sys\nprint(__name__, sys.argv, sorted(n for n in sys.modules if n[:6] in ('c2step', 'caffe2')))\n"
        "sys.exit(3)\n"
    )
    done = script(tmp_path, ["-m", "c2step.wrap", "look.py", "a", "--b"])
    assert done.returncode == 3
    assert done.stdout.startswith("__main__ ['look.py', 'a', '--b']")
    assert done.stdout.rstrip().endswith("['c2step', 'c2step.errors']")
    for variables, words in (({"C2STEP": "dmp:x"}, ["look.py"]), ({}, ["none.py"]), ({}, [])):
        done = script(tmp_path, ["-m", "c2step.wrap"] + words, **variables)
        assert done.returncode == 1 and done.stderr.startswith("error: ")


def test_a_crash_leaves_what_was_read_and_says_which_operator_began(tmp_path):
    (tmp_path / "crash.py").write_text(
        "import numpy as np\nfrom caffe2.python import core, workspace\n"
        "workspace.FeedBlob('a', np.array([4, 6]))\nworkspace.FeedBlob('b', np.array([2, 0]))\n"
        "workspace.RunOperatorOnce(core.CreateOperator('Add', ['a', 'b'], ['c']))\n"
        "net = core.Net('n')\nnet.Div(['a', 'b'], ['d'])\nworkspace.RunNetOnce(net)\n"
    )
    done = script(tmp_path, ["-m", "c2step.wrap", "crash.py"], C2STEP="dump:out")
    assert done.returncode == -8
    assert [row["type"] for row in rows(tmp_path / "out")] == ["Add"]
    with open(str(tmp_path / "out" / "journal.jsonl")) as file:
        last = json.loads(file.read().splitlines()[-1])
    assert (last["event"], last["net"], last["type"]) == ("begins", "n", "Div")
    assert len([name for name in os.listdir(str(tmp_path / "out")) if name.startswith("000001-in")]) == 2


# -- in this process ---------------------------------------------------------------------------


@pytest.fixture
def caffe2():
    """Caffe2's workspace module, on a workspace of the test's own."""
    from caffe2.python import workspace

    before = workspace.CurrentWorkspace()
    workspace.SwitchWorkspace("test-wrapping", True)
    workspace.ResetWorkspace()
    yield workspace
    workspace.ResetWorkspace()
    workspace.SwitchWorkspace(before)


def process_state(workspace):
    """Everything that wrapping may touch."""
    C = workspace.C
    names = [name for name in dir(C) if not name.startswith("__")]
    return (
        {name: id(getattr(C, name)) for name in names},
        {name: repr(value) for name, value in vars(C.Workspace).items()},
        {name: id(value) for name, value in vars(workspace).items()},
        sorted(workspace.Workspaces()),
        sorted(workspace.Nets()) if hasattr(workspace, "Nets") else sorted(C.nets()),
        sorted(workspace.Blobs()),
    )


def test_everything_is_as_before_whatever_happens(caffe2, tmp_path):
    from caffe2.python import core

    caffe2.FeedBlob("x", np.array([-1, 2], np.float32))
    early = core.Net("early")
    early.Relu(["x"], ["e"])
    caffe2.CreateNet(early)
    caffe2.RunNet(early)
    before = process_state(caffe2)
    with c2step.wrapped("Relu", save=str(tmp_path / "a")) as outer:
        caffe2.RunNet(early)
        with pytest.raises(ZeroDivisionError), c2step.wrapped({"Relu", "Exp"}, save=str(tmp_path / "b")) as inner:
            caffe2.RunNet(early)
            raise ZeroDivisionError
        caffe2.RunNet(early)
    assert process_state(caffe2) == before
    assert (outer.saved, inner.saved, outer.notes, inner.notes) == (3, 1, [], [])
    with pytest.raises(CaptureError), c2step.wrapped("Relu", save=CHECKOUT):
        raise AssertionError("not entered")
    assert process_state(caffe2) == before


def test_types_that_there_are_not_and_that_do_not_run_are_said(caffe2, tmp_path, capsys):
    with c2step.wrapped({"Rleu", "Re*", "conv"}, save=str(tmp_path / "a")) as wrapping:
        pass
    unknown, misspelt = wrapping.notes
    assert unknown.startswith("warning: no operator type of this Caffe2 is Rleu; did you mean ") and "Relu" in unknown
    assert misspelt.startswith("warning: no operator type of this Caffe2 is conv; did you mean Conv")
    with c2step.wrapped("Relu", save=str(tmp_path / "b")) as wrapping:
        pass
    assert wrapping.notes == ["warning: nothing was saved: no operator of the types Relu ran"]
    assert "c2step: warning: nothing was saved" in capsys.readouterr().err


def test_nested_wrappings_each_save_their_own(caffe2, tmp_path):
    from caffe2.python import core

    caffe2.FeedBlob("x", np.array([-1, 2], np.float32))
    net = core.Net("n")
    net.Relu(["x"], ["y"])
    net.Exp(["y"], ["y"])
    with c2step.wrapped("Relu", save=str(tmp_path / "a")) as outer:
        with c2step.wrapped("Exp", save=str(tmp_path / "b")) as inner:
            caffe2.CreateNet(net)
            caffe2.RunNet(net)
        caffe2.RunNet(net)
    caffe2.RunNet(net)
    assert (outer.saved, inner.saved) == (2, 1)
    assert [(row["index"], row["type"]) for row in rows(tmp_path / "b")] == [(1, "Exp")]
    np.testing.assert_allclose(caffe2.FetchBlob("y"), np.exp(np.array([0, 2], np.float32)), rtol=1e-6)


def test_wrappings_may_be_left_in_any_order(caffe2, tmp_path):
    from caffe2.python import core

    caffe2.FeedBlob("x", np.array([-1, 2], np.float32))
    relu = core.CreateOperator("Relu", ["x"], ["y"])
    caffe2.RunOperatorOnce(relu)
    before = process_state(caffe2)
    first, second = (c2step.wrapped("Relu", save=str(tmp_path / name)) for name in "ab")
    first.__enter__()
    with pytest.raises(UsageError), c2step.wrapped("Exp", save=str(tmp_path / "a")):
        raise AssertionError("not entered")
    second.__enter__()
    caffe2.RunOperatorOnce(relu)
    first.__exit__()
    caffe2.RunOperatorOnce(relu)
    second.__exit__()
    caffe2.RunOperatorOnce(relu)
    assert (first.saved, second.saved) == (1, 2)
    assert process_state(caffe2) == before


def test_an_operator_that_fails_in_one_thread_is_no_failure_in_another(caffe2, tmp_path):
    from caffe2.python import core

    caffe2.FeedBlob("big", np.eye(400, dtype=np.float32))

    def multiply(number):
        for turn in range(4):
            net = core.Net("good%d_%d" % (number, turn))
            net.MatMul(["big", "big"], "product%d" % number)
            assert caffe2.RunNetOnce(net)

    def fail():
        for turn in range(30):
            net = core.Net("bad%d" % turn)
            net.Reshape("big", ["shaped", "old"], shape=[77])
            with pytest.raises(RuntimeError):
                caffe2.RunNetOnce(net)

    with c2step.wrapped({"MatMul", "Reshape"}, save=str(tmp_path / "out")), ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(multiply, 0), threads.submit(multiply, 1), threads.submit(fail)]:
            done.result(60)
    found = sorted((row["type"], row["status"]) for row in rows(tmp_path / "out"))
    assert found == [("MatMul", "ok")] * 8 + [("Reshape", "failed")] * 30


def test_an_error_in_a_hook_comes_out_in_its_own_thread(caffe2):
    from caffe2.python import core

    @c2step.after("MatMul")
    def broken(call):
        raise KeyError(call.net)

    caffe2.FeedBlob("big", np.eye(400, dtype=np.float32))

    def run(number):
        net = core.Net("hooked%d" % number)
        net.MatMul(["big", "big"], "product%d" % number)
        with pytest.raises(KeyError) as raised:
            caffe2.RunNetOnce(net)
        return raised.value.args[0] == net.Name()

    with c2step.wrapped(hooks=[broken]), ThreadPoolExecutor(3) as threads:
        assert all(threads.map(run, range(24)))


def training(caffe2, shared, kind, context):
    """Every tensor after three iterations of the shared training net, two of them inside `context`."""
    from caffe2.proto import caffe2_pb2

    folder = os.path.join(shared, "models", "c2_trained_digits")
    nets = []
    for name in ("train_init_net.pb", "train_net.pb"):
        with open(os.path.join(folder, name), "rb") as file:
            nets.append(caffe2_pb2.NetDef.FromString(file.read()))
    nets[1].type, nets[1].num_workers = kind, 4
    caffe2.ResetWorkspace()
    with context:
        caffe2.RunNetOnce(nets[0])
        with np.load(os.path.join(folder, "train_batch.npz")) as archive:
            for name, array in archive.items():
                caffe2.FeedBlob(name, array)
        caffe2.CreateNet(nets[1])
        caffe2.RunNet(nets[1].name, 2)
    caffe2.RunNet(nets[1].name)
    values = {name: caffe2.FetchBlob(name) for name in caffe2.Blobs()}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}, nets


@pytest.mark.parametrize("kind", ["simple", "dag", "async_scheduling"])
def test_training_stays_bit_for_bit(caffe2, shared, tmp_path, kind):
    truth, nets = training(caffe2, shared, kind, contextlib.nullcontext())
    wrapping = c2step.wrapped(save=str(tmp_path / "out"))
    found, _ = training(caffe2, shared, kind, wrapping)
    assert len(truth) == 64 and set(found) == set(truth)
    assert all(same_bytes(found[name], value) for name, value in truth.items())
    assert wrapping.notes == [] and wrapping.saved == len(nets[0].op) + 2 * len(nets[1].op)


def test_step_nets_are_saved_at_each_time_step(caffe2, shared, tmp_path):
    folder = os.path.join(shared, "models", "digits_lstm-op9")
    with c2step.open(
        os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], in_process=True
    ) as session:
        session.cont()
        truth = {name: session.fetch(name).array for name in session.model.predict_net.external_output}
        lstm = next(op for op in session.model.predict_net.operators if op.type == "RecurrentNetwork")
        steps = session.fetch(lstm.inputs[0]).array.shape[0]
        nets = session.workspace.convert(str(tmp_path / "nets"))
    from caffe2.proto import caffe2_pb2

    with c2step.wrapped("LSTMUnit", save=str(tmp_path / "out")) as wrapping:
        for path in nets:
            with open(path, "rb") as file:
                net = caffe2_pb2.NetDef.FromString(file.read())
            if "predict" in path:
                with np.load(os.path.join(folder, "input.npz")) as archive:
                    for name, array in archive.items():
                        caffe2.FeedBlob(name, array)
            caffe2.RunNetOnce(net)
    assert all(same_bytes(caffe2.FetchBlob(name), value) for name, value in truth.items())
    assert wrapping.saved == steps > 1
    assert all("step_net" in row["net"] for row in rows(tmp_path / "out"))


def test_a_net_from_before_with_state_is_left_alone_and_said(caffe2, tmp_path):
    from caffe2.python import core

    def run(context):
        caffe2.ResetWorkspace()
        caffe2.FeedBlob("x", np.ones(64, np.float32))
        net = core.Net("seeded")
        net.Dropout(["x"], ["y", "mask"], ratio=0.5, is_test=0)
        net.Proto().op[0].device_option.random_seed = 3
        caffe2.CreateNet(net)
        caffe2.RunNet(net)
        with context:
            caffe2.RunNet(net)
            inside = caffe2.FetchBlob("y")
        caffe2.RunNet(net)
        return np.concatenate([inside, caffe2.FetchBlob("y")])

    wrapping = c2step.wrapped("Dropout", save=str(tmp_path / "out"))
    assert same_bytes(run(wrapping), run(contextlib.nullcontext()))
    assert wrapping.saved == 0 and "other values" in wrapping.notes[0] and "seeded" in wrapping.notes[0]
    assert [name for name in os.listdir(str(tmp_path / "out")) if name.endswith(".npy")] == []


def test_hooks_see_arrays_and_can_change_them(caffe2):
    from caffe2.python import core

    calls = []

    @c2step.before("Exp")
    def zero(call):
        calls.append((call.type, call.index, dict(call.inputs), dict(call.outputs)))
        return {"y": np.zeros_like(call.inputs["y"])}

    @c2step.after("Re*", "Exp")
    def add(call):
        return {name: value + np.float32(1) for name, value in call.outputs.items()}

    net = core.Net("n")
    net.Relu(["x"], ["y"])
    net.Exp(["y"], ["z"])
    caffe2.FeedBlob("x", np.array([-1, 2], np.float32))
    with c2step.wrapped(hooks=[zero, add]):
        caffe2.RunNetOnce(net)
    assert caffe2.FetchBlob("z").tolist() == [2, 2] and caffe2.FetchBlob("y").tolist() == [0, 0]
    ((kind, index, inputs, outputs),) = calls
    assert (kind, index, inputs["y"].tolist(), outputs) == ("Exp", 1, [1, 3], {})


@pytest.mark.parametrize("way", ["net", "operator"])
def test_an_error_in_a_hook_comes_out_as_it_is(caffe2, way):
    from caffe2.python import core

    @c2step.after("Relu")
    def wrong(call):
        return {"nonsense": 1}

    @c2step.after("Relu")
    def broken(call):
        raise KeyError("mine")

    caffe2.FeedBlob("x", np.array([-1, 2], np.float32))
    net = core.Net("n")
    net.Relu(["x"], ["y"])
    for hook, error in ((wrong, UsageError), (broken, KeyError)):
        with pytest.raises(error), c2step.wrapped(hooks=[hook]):
            caffe2.RunNetOnce(net) if way == "net" else caffe2.RunOperatorOnce(net.Proto().op[0])
    assert caffe2.RunNetOnce(net)


def test_what_is_no_tensor_and_what_does_not_fit(caffe2, tmp_path, monkeypatch):
    from caffe2.python import core

    net = core.Net("n")
    net.CreateMutex([], ["lock"])
    net.GivenTensorStringFill([], ["words"], shape=[2], values=["a", "bc"])
    net.Dropout(["x"], ["y", "mask"], is_test=1)
    caffe2.FeedBlob("x", np.zeros((0, 3), np.float32))
    with c2step.wrapped(save=str(tmp_path / "out")) as wrapping:
        caffe2.RunNetOnce(net)
    assert wrapping.notes == []
    kinds = [out["kind"] for row in rows(tmp_path / "out") for out in row["outputs"]]
    assert kinds == ["other", "string", "tensor", "uninitialised"]
    assert c2step.open_capture(str(tmp_path / "out")).load("words").array.tolist() == [b"a", b"bc"]
    caffe2.FeedBlob("x", np.zeros((9, 3), np.float32))
    with c2step.wrapped("Dropout", save=str(tmp_path / "small"), max_bytes=120) as wrapping:
        caffe2.RunNetOnce(net)
    assert "max_bytes" in wrapping.notes[0] and caffe2.FetchBlob("y").shape == (9, 3)
    assert [out["file"] is None for row in rows(tmp_path / "small") for out in row["outputs"]] == [True, True]

    def full(path, blob):
        raise CaptureError("the disk is full")

    monkeypatch.setattr("c2step.workspace.saving.write_blob", full)
    with c2step.wrapped("Dropout", save=str(tmp_path / "full")) as wrapping:
        assert caffe2.RunNetOnce(net)
    assert "disk is full" in wrapping.notes[0]


def test_a_predictor_from_before_is_left_alone_and_said(caffe2, tmp_path):
    from caffe2.python import core

    net, empty = core.Net("relu"), core.Net("nothing")
    net.Relu(["x"], ["y"])
    net.Proto().external_input.append("x")
    net.Proto().external_output.append("y")
    made = caffe2.Predictor(empty.Proto().SerializeToString(), net.Proto().SerializeToString())
    x = np.array([-1, 2], np.float32)
    before = dict(vars(type(made)))
    with c2step.wrapped("Relu", save=str(tmp_path / "out")) as wrapping:
        for _ in range(2):
            assert made.run([x])[0].tolist() == [0, 2]
        inside = caffe2.Predictor(empty.Proto().SerializeToString(), net.Proto().SerializeToString())
        assert inside.run([x])[0].tolist() == [0, 2] and wrapping.saved == 1
        with c2step.wrapped("Relu", save=str(tmp_path / "more")) as more:
            assert inside.run([x])[0].tolist() == made.run([x])[0].tolist() == [0, 2]
    assert [note for note in wrapping.notes if "Predictor was made before" in note] == wrapping.notes != []
    assert more.saved == 0 and len(more.notes) == 1
    assert dict(vars(type(made))) == before and made.run([x])[0].tolist() == [0, 2]


def test_show_names_each_operator_that_ran_alone(caffe2, tmp_path, capsys):
    from caffe2.python import core

    from c2step.cli import main

    caffe2.ResetWorkspace()
    caffe2.FeedBlob("x", np.ones((1, 1, 4, 4), np.float32))
    operators = [core.CreateOperator("Relu", ["x"], ["r"]), core.CreateOperator("MaxPool", ["r"], ["mp"], kernel=2)]
    with c2step.wrapped(save=str(tmp_path / "out")):
        caffe2.RunOperatorsOnce(operators)
    assert main(["show", str(tmp_path / "out")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[1], line[2]) for line in lines] == [("Relu", "r@1"), ("MaxPool", "mp@1")]
