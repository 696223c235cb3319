"""Runtimes and versions against each other: what is listed, lint of a version, one model on several, old nets."""

import json
import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core

from c2step import cli
from c2step.compare.matrix import BITWISE, CLOSE, DIFFERS, matrix
from c2step.launch import open_session
from c2step.workspace import runtimes
from c2step.workspace.loading import without_gpu_words


@pytest.fixture(scope="module")
def working(tmp_path_factory, models):
    """A working folder with the sample models, and in `deployment` one of them as it was written for a GPU."""
    folder = tmp_path_factory.mktemp("runtimes")
    os.symlink(models, str(folder / "models"))
    (folder / "deployment").mkdir()
    for role in ("init_net", "predict_net"):
        net = read_net(os.path.join(models, "digits_native", role + ".pb"))
        net.device_option.device_type, net.device_option.device_id, net.device_option.random_seed = 1, 1, 7
        if role == "predict_net":
            make_old(net)
        (folder / "deployment" / (role + ".pb")).write_bytes(net.SerializeToString())
    return folder


def read_net(path):
    net = caffe2_pb2.NetDef()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return net


def make_old(net):
    for op in net.op:
        if op.type in ("Conv", "MaxPool"):
            op.engine = "CUDNN"
    del net.external_output[:]
    net.op.add(type="ImageReport", input=[net.op[-1].output[0]], output=["report"])


def run(capsys, *words):
    status = cli.main(list(words))
    said = capsys.readouterr()
    return status, said.out, said.err


def test_each_runtime_says_what_it_is_and_the_others_how_to_get_them(older_caffe2):
    found = runtimes.probe("1.2.0")
    ask = (
        "import torch; from caffe2.python import workspace as w; print(torch.__version__, len(w.RegisteredOperators()))"
    )
    asked = subprocess.run(
        [older_caffe2, "-W", "ignore", "-c", ask],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=True,
    )  # fmt: skip
    assert asked.stdout.split() == [found.versions["torch"], str(found.versions["operators"])]
    assert "1.2.0" in runtimes.environments() and found.works and not found.missing
    assert "1.2.0" not in runtimes.obtainable([found]) and "1.4.0" in runtimes.obtainable([found])


def test_what_does_not_work_is_said_in_one_line(front_only, tmp_path):
    bare = runtimes.probe("python:" + front_only)
    assert not bare.works and "caffe2" in bare.missing and "\n" not in bare.missing
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexec sleep 100\n")
    silent.chmod(0o755)
    assert runtimes.probe("python:%s" % silent, 0.2).missing == "no answer in 0.2 seconds"
    assert runtimes.probe("9.9.9").missing == "runtime 9.9.9: there is no .envs/torch-9.9.9"


@pytest.mark.parametrize(
    "script, images, words",
    [
        ("echo c2step:1.2.0; echo 'c2step:<none>'", ["docker:c2step:1.2.0"], ""),
        ("echo 'cannot connect' >&2; exit 1", [], "docker: cannot connect"),
    ],
)
def test_images_or_why_docker_does_not_say(script, images, words, tmp_path, monkeypatch):
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\n" + script)
    client.chmod(0o755)
    monkeypatch.setenv("DOCKER", str(client))
    assert runtimes.images() == (images, words)


def test_runtimes_as_json(capsys, monkeypatch):
    monkeypatch.setattr("c2step.cli.runtimes.environments", lambda: ["default"])
    monkeypatch.setenv("DOCKER", "/nowhere/docker")
    status, out, _ = run(capsys, "runtimes", "--json")
    found = json.loads(out)
    assert status == 0 and found["docker"].startswith("docker: ")
    assert [row["works"] for row in found["runtimes"]] == [True]


def test_the_table_says_which_importers_there_are(first_caffe2, older_caffe2, capsys, monkeypatch):
    monkeypatch.setattr("c2step.cli.runtimes.environments", lambda: ["1.2.0", "1.0.1"])
    monkeypatch.setenv("DOCKER", "/nowhere/docker")
    _, out, _ = run(capsys, "runtimes")
    assert re.search(r"^1.2.0 .* caffe2$", out, re.M) and re.search(r"^1.0.1 .* caffe2, onnx_caffe2$", out, re.M)


def test_no_word_of_the_gpu_at_the_import_and_every_other_one():
    """The words are those of torch 1.0.1 and 1.5.1, with the root logger, as Caffe2 says them."""
    said, handler = [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    try:
        with without_gpu_words():
            logging.warning("This caffe2 python run does not have GPU support. Will run in CPU only mode.")
            logging.warning("This caffe2 python run failed to load cuda module:%s", "no module")
            logging.warning("another word")
        logging.warning("This caffe2 python run does not have GPU support.")
    finally:
        logging.getLogger().removeHandler(handler)
    assert said == ["another word", "This caffe2 python run does not have GPU support."]


def test_versions_agree_on_a_sample_model(models, older_caffe2, capsys):
    folder = os.path.join(models, "digits_cnn")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz")]
    status, out, _ = run(capsys, "matrix", *words, "--runtimes", "default,1.2.0,9.9.9", "--json")
    found = json.loads(out)
    here, there, nowhere = found["runtimes"]
    assert status == 1 and found["against"] == "default"
    assert there["versions"]["torch"] == "1.2.0" and here["operators"] == there["operators"] == 11
    assert set(there["outputs"].values()) <= {BITWISE, CLOSE} and there["agrees"]
    assert not nowhere["imports"] and "9.9.9" in nowhere["error"]


def test_a_model_without_its_inputs_is_run_nowhere(models, capsys):
    model = os.path.join(models, "digits_cnn", "model.onnx")
    status, out, error = run(capsys, "matrix", model, "--runtimes", "default")
    assert (status, out) == (2, "") and "input digits has no value" in error and "--input digits=FILE" in error


def test_the_first_difference_is_named(models, tmp_path):
    """Two runs that differ in a weight from operator 4 on, as another importer would make them."""
    folder = os.path.join(models, "digits_native")
    nets = {name: os.path.join(folder, name + ".pb") for name in ("init_net", "predict_net")}
    predict = read_net(nets["predict_net"])
    changed = next(i for i, op in enumerate(predict.op) if i and op.type == "Conv")
    weight = predict.op[changed].input[1]

    def opener(runtime, keep):
        session = open_session(None, [os.path.join(folder, "input.npz")], keep=keep, in_process=True, **nets)
        if runtime == "other":
            session.feed(weight, 2 * session.fetch(weight).array)
        return session

    found = matrix(opener, ["one", "other", "one"], str(tmp_path))
    assert found.rows[1].first.index == changed and found.rows[1].first.blob == predict.op[changed].output[0]
    assert DIFFERS in found.rows[1].blobs and not found.rows[1].agrees
    assert set(found.rows[2].outputs.values()) == {BITWISE} and found.rows[2].first_bit is None


def test_an_operator_that_fails_is_named(working, older_caffe2, capsys):
    words = [str(working / "deployment"), "--input", str(working / "models" / "digits_native" / "input.npz")]
    status, out, _ = run(capsys, "matrix", *words, "--runtimes", "1.2.0")
    assert status == 1
    assert re.search(r"^1.2.0: operator 11 ImageReport report fails: .*Cannot create", out, re.M)


def test_lint_names_what_a_version_lacks(tmp_path, older_caffe2, capsys):
    """The oracle is the version's own list of operators."""
    ask = "from caffe2.python import workspace; print(*workspace.RegisteredOperators())"
    names = [subprocess.run([python, "-W", "ignore", "-c", ask], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            universal_newlines=True, check=True).stdout.split()
             for python in (sys.executable, older_caffe2)]  # fmt: skip
    newer = sorted(set(names[0]) - set(names[1]))[0]
    net = caffe2_pb2.NetDef(name="n", external_input=["x"])
    net.op.add(type="Softmax", input=["x"], output=["s"]).arg.add(name="unheard_of", i=1)
    net.op.add(type=newer, input=["s"], output=["y"])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    status, out, _ = run(capsys, "lint", str(tmp_path), "--json", "--runtime", "1.2.0")
    found = {finding["code"]: finding for finding in json.loads(out)}
    assert status == 1 and found["operator-missing"]["op_type"] == newer
    assert found["argument-unlisted"]["effect"] == "note" and "unheard_of" in found["argument-unlisted"]["message"]


def test_lint_names_a_database_that_caffe2_was_built_without(tmp_path, capsys):
    from caffe2.python import workspace

    net = caffe2_pb2.NetDef(name="n")
    for kind in ("minidb", "lmdb"):
        net.op.add(type="CreateDB", output=[kind]).arg.add(name="db_type", s=kind.encode())
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    status, out, _ = run(capsys, "lint", str(tmp_path), "--json")
    truth = {"lmdb", "minidb"} - set(workspace.C.registered_dbs())
    assert status == 1 and truth == {"lmdb"}
    (finding,) = json.loads(out)
    assert [finding[key] for key in ("code", "effect", "node")] == [
        "database-missing",
        "fail",
        "predict_net operator 1",
    ]


def test_lint_of_a_version_looks_at_what_an_onnx_model_becomes(models, older_caffe2, capsys):
    status, out, _ = run(capsys, "lint", os.path.join(models, "digits_lstm", "model.onnx"), "--runtime", "1.2.0")
    assert status == 0 and "argument-unlisted  FC" in out


def test_old_nets_open_and_say_what_was_mapped(working):
    with open_session(
        str(working / "deployment"), [str(working / "models" / "digits_native" / "input.npz")]
    ) as session:
        notes = "\n".join(session.model.notes)
        for words in ("init_net: the net's device option mapped to CPU", "engine CUDNN", "external_output is empty"):
            assert words in notes
        assert session.model.predict_net.device == "CPU seed 7"
        assert [finding["op_type"] for finding in session.model.findings] == ["ImageReport"]
        assert session.cont().position == 11
        right = np.load(str(working / "models" / "digits_native" / "expected.npz"))
        np.testing.assert_allclose(session.fetch("prob").array, right[right.files[0]], rtol=1e-3, atol=1e-5)


def test_the_readme(working, checkout, older_caffe2, first_caffe2):
    with open(os.path.join(checkout, "README.md"), encoding="utf-8") as file:
        lines = re.findall(r"^```sh deployment\n(.*?)^```", file.read(), re.M | re.S)
    for line in "".join(lines).splitlines():
        done = subprocess.run(["sh", "-c", "%s -m %s" % (sys.executable, line)], cwd=str(working),
                              env=dict(os.environ, PYTHONPATH=checkout), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)  # fmt: skip
        assert done.returncode == (1 if " lint " in line else 0), "%s\n%s" % (line, done.stdout)
    assert len(lines) == 2


def test_the_default_may_be_named(models):
    folder = os.path.join(models, "digits_native")
    nets = {role: os.path.join(folder, role + ".pb") for role in ("init_net", "predict_net")}
    with open_session(None, [os.path.join(folder, "input.npz")], runtime="default", **nets) as session:
        assert session.versions_of_runtime["torch"]


def test_copies_between_devices_are_copies(tmp_path):
    net = caffe2_pb2.NetDef(name="gpu")
    net.device_option.device_type = 1
    for type_, reads, writes in (("CopyCPUToGPU", "x", "a"), ("Relu", "a", "b"), ("CopyGPUToCPU", "b", "y")):
        net.op.add().CopyFrom(core.CreateOperator(type_, [reads], [writes]))
    net.external_input.append("x")
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    x = np.array([-1, 2], np.float32)
    with open_session(None, {"x": x}, predict_net=str(tmp_path / "predict_net.pb")) as session:
        assert any("CopyGPUToCPU, which only a GPU has, as Copy" in note for note in session.model.notes)
        assert session.cont().reason == "end"
        assert np.array_equal(session.fetch("y").array, np.maximum(x, 0))
