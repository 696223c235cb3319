"""A sweep gives what blame gives for each input, the same for any number of jobs, whatever ends on the way."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import c2step
from c2step.analyses.channels import channels
from c2step.capture import Capture
from c2step.cli import main
from c2step.cli.against import reference_for
from c2step.compare.blame import blame
from c2step.compare.tolerance import Tolerances
from c2step.errors import C2StepError, CaptureError, ConversionError, InputError, UsageError, WorkerDied
from c2step.recording import Keep
from c2step.references.making import OnnxRuntime
from c2step.sweeping.job import Job
from reference_support import node, write_model
from sweep_support import ENGINE, JOB, WORKER, below, write_digits

TIGHT = {"tolerance": ["prob=0,1e-8", "fc=0,2e-6"], "rtol": 1e-3, "atol": 1e-3}
"""Tolerances at which some digits pass and others do not, by the rounding of float32."""


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits") / "d", 200)


@pytest.fixture(scope="module")
def cnn(models):
    return os.path.join(models, "digits_cnn", "model.onnx")


def rows_of(directory):
    with open(os.path.join(str(directory), "rows.jsonl")) as file:
        return sorted(file.read().splitlines())


class Killer:
    """Ends a process of the sweep when so many inputs are done; remembers the memory of the jobs."""

    def __init__(self, **when):
        self.when = when
        self.killed = []
        self.memory = {}

    def __call__(self, done, of):
        for word, at in self.when.items():
            if done == at:
                victim = below(os.getpid(), {"job": JOB, "worker": WORKER, "engine": ENGINE}[word])[0]
                os.kill(victim, signal.SIGKILL)
                self.killed.append(word)
        if done in (40, of - 10):
            self.memory[done] = max(map(resident, below(os.getpid(), JOB)))


def resident(pid):
    with contextlib.suppress(OSError), open("/proc/%d/status" % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
    return 0


@pytest.fixture(scope="module")
def undisturbed(digits, cnn, tmp_path_factory):
    """Two hundred digits with one job and none killed."""
    folder = str(tmp_path_factory.mktemp("undisturbed") / "o")
    watched = Killer()
    found = c2step.sweep(cnn, digits, "onnxruntime", directory=folder, jobs=1, progress=watched, **TIGHT)
    return found, watched.memory


def test_two_jobs_of_which_processes_are_killed_give_the_same_report(digits, cnn, tmp_path, undisturbed):
    said = []
    killer = Killer(job=30, worker=80, engine=130)
    found = c2step.sweep(cnn, digits, "onnxruntime", directory=str(tmp_path / "o"), jobs=2, progress=killer,
                         tell=said.append, **TIGHT)  # fmt: skip
    assert killer.killed == ["job", "worker", "engine"]
    assert any("was ended by SIGKILL" in text and "another one tries it once more" in text for text in said)
    assert found.report == undisturbed[0].report
    assert rows_of(tmp_path / "o") == rows_of(undisturbed[0].directory)
    assert not below(os.getpid(), "c2step")


def test_what_is_still_written_while_it_is_taken_away_goes_too(tmp_path, monkeypatch):
    (tmp_path / "golden").mkdir()
    job, take_away = Job.__new__(Job), shutil.rmtree
    job._folder, job._fast = str(tmp_path), ""

    def meanwhile(path):
        monkeypatch.undo()
        take_away(path)
        (tmp_path / "golden").mkdir()
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    job._empty()
    assert not list(tmp_path.iterdir())


def test_the_report_is_about_all_inputs_and_labels_depend_on_them(undisturbed):
    found = undisturbed[0]
    report = found.to_json()
    assert report["inputs"] == 200 and sum(report["verdicts"].values()) == 200 and not report["failures"]
    assert report["verdict"] == "FAIL" and found.status == 1
    split = {entry["index"]: entry for entry in report["depends"] if entry["label"] == "ORIGIN"}
    assert split and all(0 < entry["count"] < 200 == entry["of"] for entry in split.values())
    rows = list(found.rows())
    assert [row["input"] for row in rows] == ["%03d.npy" % i for i in range(200)]
    for operator in found.operators:
        own = [row["operators"][operator["index"]] for row in rows]
        for side in ("run", "alone"):
            numbers = np.array([one[side]["max_abs"] for one in own])
            said = operator[side]["max_abs"]
            assert said["worst"] == rows[int(numbers.argmax())]["input"] or not numbers.any()
            wanted = [numbers.min(), *np.percentile(numbers, [50, 95]), numbers.max()]
            assert [said[key] for key in ("min", "median", "p95", "max")] == pytest.approx(wanted, rel=1e-12)
        assert operator["labels"].get("ORIGIN", 0) == sum(one["label"] == "ORIGIN" for one in own)


def test_jobs_do_not_grow(undisturbed):
    first, last = undisturbed[1].values()
    assert first and last - first < 4000  # kB, over 150 inputs


def test_each_row_is_what_blame_gives(digits, cnn, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    rows = list(undisturbed[0].rows())
    rules = Tolerances.parse(*TIGHT["tolerance"], rtol=TIGHT["rtol"], atol=TIGHT["atol"])
    for number in (199,):
        with c2step.open(cnn, [os.path.join(digits, "%03d.npy" % number)]) as session:
            reference = reference_for(session, "onnxruntime", str(tmp_path / str(number)))
            wanted = blame(session, reference, rules).to_json()
        row = rows[number]
        assert (row["verdict"], row["outputs"]) == (wanted["verdict"], wanted["outputs"])
        for ours, theirs in zip(row["operators"], wanted["operators"]):
            assert (ours["index"], ours["label"]) == (theirs["index"], theirs["label"])
            for side in ("run", "alone"):
                assert ours[side]["max_abs"] == theirs[side]["comparison"]["max_abs"]
                assert ours[side]["rel_l2"] == theirs[side]["comparison"]["rel_l2"]


# -- going on --------------------------------------------------------------------------------------


def stop_at(count):
    def progress(done, of):
        if done == count:
            raise KeyboardInterrupt

    return progress


def test_a_sweep_goes_on_where_it_was_stopped_with_what_it_was_made_with(digits, cnn, models, tmp_path, undisturbed):
    (tmp_path / "some").mkdir()
    some = [shutil.copy(os.path.join(digits, "%03d.npy" % i), str(tmp_path / "some")) for i in range(12)]
    out = str(tmp_path / "o")
    with pytest.raises(KeyboardInterrupt):
        c2step.sweep(cnn, some, "onnxruntime", directory=out, jobs=2, progress=stop_at(5), **TIGHT)
    assert not below(os.getpid(), "c2step")
    done = rows_of(out)
    assert 5 <= len(done) < 12
    with open(os.path.join(out, "rows.jsonl"), "ab") as file:
        file.write(b'{"input": "torn')
    for changed, said in (
        ({"rtol": 1e-5}, "rtol 0.001, now 1e-05"),
        ({"against": ""}, "against onnxruntime, now not given"),
        ({"importing": "repaired"}, "importing faithful, now repaired"),
        ({"model": os.path.join(models, "digits_ceil", "model.onnx")}, r"model\.model\.onnx [0-9a-f]{12}, now"),
    ):
        options = dict(dict(TIGHT, model=cnn, against="onnxruntime"), **changed)
        with pytest.raises(UsageError, match="made otherwise: " + said):
            c2step.sweep(inputs=some, directory=out, jobs=1, **options)
    counts, said = [], []
    first = json.loads(done[0])["input"]
    np.save(first, np.load(first) * 0.5)
    found = c2step.sweep(cnn, some, "onnxruntime", directory=out, jobs=1, tell=said.append,
                         progress=lambda done, of: counts.append(done), **TIGHT)  # fmt: skip
    assert any("1 of them changed since they were done: %s" % first in text for text in said)
    assert counts[-1] == 12 and len(counts) <= 12 - len(done) + 1
    assert set(done[1:]) <= set(rows_of(out)) and not any("torn" in row for row in rows_of(out))
    whole = {row["input"]: row for row in undisturbed[0].rows()}
    for row in found.rows():
        same = dict(row, input="") == dict(whole[os.path.basename(row["input"])], input="")
        assert same == (row["input"] != first)


def test_a_folder_of_something_else_is_refused(digits, cnn, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(CaptureError, match="is no sweep"):
        c2step.sweep(cnn, digits, directory=str(tmp_path))


# -- the command -----------------------------------------------------------------------------------


def command(words, checkout, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
    return subprocess.Popen([sys.executable, "-m", "c2step", "sweep", *words], cwd=checkout, **dict(pipes, **options))


def test_ctrl_c_ends_it_cleanly_and_the_same_command_goes_on(digits, cnn, checkout, tmp_path):
    out = tmp_path / "o"
    words = [cnn, "--inputs", digits, "--against", "onnxruntime", "--jobs", "2", "-o", str(out)]
    running = command(words, checkout, start_new_session=True)
    while running.poll() is None and not (out.exists() and len(rows_of(out)) > 3):
        time.sleep(0.05)
    family = below(running.pid, "c2step")
    os.killpg(running.pid, signal.SIGINT)
    printed, said = running.communicate(timeout=60)
    assert running.returncode == 130 and not printed
    wanted = "%d rows are kept in %s; the same command goes on with the others" % (len(rows_of(out)), out)
    assert wanted in said.splitlines()
    assert len(family) >= 4 and not any(os.path.exists("/proc/%d" % pid) for pid in family)
    rows = rows_of(out)
    assert 3 < len(rows) < 200 and all(json.loads(row)["status"] == "ok" for row in rows)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_ctrl_c_before_anything_is_done_says_what_is_kept(digits, cnn, monkeypatch, capsys, tmp_path, kept):
    """Whether the keys reach this process first or the worker that Ctrl-C ends."""
    words = ["sweep", cnn, "--inputs", digits] + (["-o", str(tmp_path / "o")] if kept else [])
    for end in (KeyboardInterrupt(), WorkerDied("the worker was ended", by_user=True)):

        def ended(*_, end=end):
            raise end

        monkeypatch.setattr("c2step.cli.sweep.run_sweep", ended)
        assert main(words) == 130
        said = capsys.readouterr().err.splitlines()
        wanted = "0 rows are kept in %s; the same command goes on with the others" % (tmp_path / "o")
        assert said == [
            wanted if kept else "no row is kept: with -o DIR they are, and the same command goes on",
            "interrupted",
        ]


def test_what_was_done_to_inputs_is_noted_once(cnn, capsys, tmp_path):
    folder = tmp_path / "inputs"
    folder.mkdir()
    for number, dtype in enumerate(["float64", "float32", "float64"]):
        np.save(str(folder / ("%d.npy" % number)), np.full((1, 1, 8, 8), 0.5, dtype))
    for jobs in ("1", "2"):
        words = ["sweep", cnn, "--inputs", str(folder), "-o", str(tmp_path / jobs), "--jobs", jobs, "--json"]
        for _ in range(2):  # the second time every row is there
            assert main(words) == 0
            told = capsys.readouterr()
            notes = [line for line in told.err.splitlines() if "float64" in line]
            note = "input digits: float64 was cast to float32, as declared (2 of 3 inputs)"
            assert notes == ["sweep: note: " + note] and note in json.loads(told.out)["notes"]


def test_one_file_json_csv_and_as_many_jobs_as_fit_into_memory(models, checkout, tmp_path):
    folder = os.path.join(models, "digits_ceil")
    words = [folder + "/model.onnx", "--inputs", folder + "/input.npz", "--against", "onnxruntime"]
    words += ["--jobs", "3", "--max-memory", "600M"]
    tables = ["--csv", str(tmp_path / "operators.csv"), "--inputs-csv", str(tmp_path / "inputs.csv")]
    running = command([*words, "--json", *tables], checkout)
    printed, said = running.communicate(timeout=120)
    found = json.loads(printed)
    assert running.returncode == 1 and found["verdict"] == "FAIL" and found["inputs"] == 4
    assert "4 inputs along the first axis, each digits (1, 1, 8, 8)" in said
    assert "memory: a job takes " in said and "; 1 of them at once within 629 MB" in said
    (pool,) = [operator for operator in found["operators"] if operator["labels"].get("ORIGIN")]
    assert pool["type"] == "MaxPool" and pool["labels"] == {"ORIGIN": 4} and pool["run"]["wrong"] == 4
    assert len((tmp_path / "operators.csv").read_text().splitlines()) == 1 + len(found["operators"])
    assert (tmp_path / "inputs.csv").read_text().splitlines()[1].startswith("input.npz[0],ok,,FAIL,2")


@pytest.mark.parametrize(
    "words, status, said",
    [
        (["MODEL", "--inputs", "gone"], 2, "there is no gone"),
        (["MODEL", "--inputs", "DIGITS", "--jobs", "0"], 2, "0 jobs are none"),
        (["MODEL", "--inputs", "DIGITS", "--against", "gone"], 2, "there is no reference gone"),
        (["MODEL", "--inputs", "DIGITS", "--against", "torch:gone.py:make"], 9, "is not FILE.py:factory"),
        (["MODEL", "--inputs", "DIGITS", "--against", "DIGITS/000.npy"], 2, "is no reference"),
        (["MODEL", "--inputs", "DIGITS", "--tolerance", "x"], 2, "tolerance 'x'"),
        (["MODEL", "--inputs", "DIGITS", "--max-memory", "100M"], 2, "too little"),
    ],
)
def test_mistakes_are_said_in_two_lines(words, status, said, digits, cnn, capsys):
    assert main(["sweep", *[word.replace("MODEL", cnn).replace("DIGITS", digits) for word in words]]) == status
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) <= 3


# -- what goes wrong with an input ------------------------------------------------------------------


def test_inputs_that_do_not_fit_are_reported_and_the_others_run(digits, cnn, tmp_path):
    good = [np.load(os.path.join(digits, "%03d.npy" % i)) for i in range(2)]
    inputs = [
        good[0].reshape(8, 8),
        good[0],
        good[1].astype(np.int64),
        np.concatenate(good),
        {"digit": good[0]},
        good[1],
    ]
    found = c2step.sweep(cnn, inputs, "onnxruntime", jobs=1)
    assert [row["status"] for row in found.rows()] == ["error", "ok", "error", "ok", "error", "ok"]
    assert [entry["input"] for entry in found.report["failures"]] == ["0", "2", "4"]
    assert "declared is [N, 1, 8, 8]" in found.report["failures"][0]["error"]
    assert found.report["verdicts"] == {"NONE": 3, "PASS": 3} and found.status == 8
    shapes = [row["fed"]["digits"]["shape"][0] for row in found.rows() if row["status"] == "ok"]
    assert shapes == [1, 2, 1]  # for another shape the model is opened anew
    with pytest.raises(InputError, match="none of the 2 inputs could be run"):
        c2step.sweep(cnn, inputs[:1] * 2, "onnxruntime", jobs=1)


@pytest.fixture
def dividing(tmp_path):
    """A model whose Div ends Caffe2's process, and onnxruntime's, where `b` has a zero."""
    nodes = [node("Add", "a a", "s"), node("Div", "s b", "q"), node("Add", "q a", "y")]
    example = {"a": np.array([4, 9], np.int32), "b": np.array([2, 0], np.int32)}
    return write_model(tmp_path / "div.onnx", nodes, example, ["y"])


def test_an_operator_that_ends_its_process_for_some_inputs(dividing):
    inputs = [{"a": np.array([4 + i, 9], np.int32), "b": np.array([2, (i + 1) % 3], np.int32)} for i in range(4)]
    found = c2step.sweep(dividing, inputs, "onnxruntime", jobs=1)
    rows = list(found.rows())
    assert ["SIGFPE" in json.dumps(row) for row in rows] == [False, False, True, False]
    assert [row["verdict"] for row in rows] == ["PASS", "PASS", "FAIL", "PASS"]
    assert found.report["troubles"] == {"died": 2} and found.report["failures"][0]["index"] == 1
    assert rows[2]["operators"][1]["label"] == "ORIGIN" and rows[2]["operators"][1]["run"]["status"] == "died"
    plain = c2step.sweep(dividing, inputs[1:3], jobs=1)
    assert plain.report["verdicts"] == {"RAN": 1} and plain.report["troubles"] == {"died": 1} and plain.status == 5


def test_a_model_that_is_refused_ends_the_sweep(tmp_path):
    path = write_model(tmp_path / "m.onnx", [node("NoSuchOperator", "x", "y")], {"x": np.zeros(2, np.float32)}, ["y"])
    with pytest.raises(ConversionError):
        c2step.sweep(path, [np.zeros(2, np.float32)] * 3, jobs=1)


# -- without a reference ---------------------------------------------------------------------------


def test_statistics_and_channels_are_those_of_captures_of_all_inputs(digits, cnn, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    inputs = [np.load(os.path.join(digits, "%03d.npy" % i)) for i in range(6)]
    inputs[2][0, 0, 0, 0] = np.nan
    found = c2step.sweep(cnn, inputs, jobs=1, channels=True)
    assert found.status == 0 and found.report["verdicts"] == {"RAN": 6}
    for number, array in enumerate(inputs):
        with c2step.open(cnn, {"digits": array}, in_process=True, keep=Keep(str(tmp_path / str(number)))) as session:
            session.cont()
    captures = [Capture(str(tmp_path / str(number))) for number in range(6)]
    values = [capture.load("conv1").array for capture in captures]
    (blob,) = found.operators[0]["blobs"]
    assert blob["blob"] == "conv1@1" and blob["shapes"] == [["float32", list(values[0].shape)]]
    largest = [np.nanmax(value) for value in values]
    assert blob["max"]["max"] == max(largest) and blob["max"]["worst"] == str(int(np.argmax(largest)))
    means = [np.nanmean(value, dtype=np.float64) for value in values]
    assert blob["mean"]["median"] == pytest.approx(np.median(means), rel=1e-5)
    assert blob["nan"]["max"] == np.isnan(values[2]).sum() > 0 and blob["nan"]["worst"] == "2"
    wanted = {str(one.blob): one for one in channels(captures)}
    said = {blob["blob"]: blob.get("channels") for operator in found.operators for blob in operator["blobs"]}
    assert {name for name, one in said.items() if one} == set(wanted)
    for name, one in wanted.items():
        assert (said[name]["dead"], said[name]["weak"]) == (one.dead, one.weak)
        for key in ("mean", "largest"):
            assert said[name][key] == pytest.approx(getattr(one, key), rel=1e-12, nan_ok=True)
    with pytest.raises(UsageError, match="where nothing is compared"):
        c2step.sweep(cnn, inputs, "onnxruntime", channels=True)


def test_all_jobs_have_the_weights_that_one_of_them_drew(tmp_path):
    from test_survival import random_nets

    nets = random_nets(tmp_path)
    inputs = [{"p": np.array([i, 1], np.int32), "z": np.array([1, 1], np.int32)} for i in range(6)]
    found = c2step.sweep(nets, inputs, directory=str(tmp_path / "o"), jobs=2)
    copies = [row["operators"][0]["blobs"][0] for row in found.rows()]
    assert all(copy == copies[0] for copy in copies) and copies[0]["std"] > 0
    again = c2step.sweep(nets, inputs + inputs[:1], directory=str(tmp_path / "o"), jobs=1)
    assert list(again.rows())[6]["operators"][0]["blobs"][0] == copies[0]


# -- references ------------------------------------------------------------------------------------


def test_golden_values_in_files_by_the_inputs_names(digits, cnn, tmp_path):
    golden = tmp_path / "golden"
    golden.mkdir()
    some = [os.path.join(digits, "%03d.npy" % i) for i in range(3)]
    with OnnxRuntime(cnn, sys.executable) as runtime:
        runtime.make({"digits": np.load(some[0])}, str(golden / "000"))
        made = runtime.make({"digits": np.load(some[1])}, str(tmp_path / "values"))
    np.savez(str(golden / "001.npz"), **{name: made.get(name) for name in made.names()})
    names = [os.path.basename(path) for path in some]
    (tmp_path / "list.txt").write_text("".join(path + "\n" for path in some))
    out = str(tmp_path / "o")
    found = c2step.sweep(cnn, str(tmp_path / "list.txt"), str(golden), directory=out, jobs=1)
    assert [row["status"] for row in found.rows()] == ["ok", "ok", "error"]
    assert [row.get("verdict") for row in found.rows()] == ["PASS", "PASS", None]
    assert "has no golden values for %s" % names[2][:-4] in found.report["failures"][0]["error"]
    np.savez(str(golden / (names[1][:-4] + ".npz")), prob=np.zeros((1, 10), np.float32))
    with pytest.raises(UsageError, match="golden values of .*%s are others" % names[1]):
        c2step.sweep(cnn, str(tmp_path / "list.txt"), str(golden), directory=out, jobs=1)
    with pytest.raises(UsageError, match="golden values of one input"):
        c2step.sweep(cnn, some, str(golden / names[0][:-4]), jobs=1)


def test_a_pytorch_module(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        return torch.relu(x)\ndef make():\n    return Net()\n"
    )
    inputs = [np.random.RandomState(i).randn(2, 3).astype(np.float32) for i in range(3)]
    path = write_model(tmp_path / "m.onnx", [node("Relu", "x", "y")], {"x": inputs[0]}, ["y"])
    found = c2step.sweep(path, inputs, "torch:%s:make" % (tmp_path / "net.py"), jobs=1)
    assert found.report["verdicts"] == {"PASS": 3} and found.operators[0]["run"]["max_abs"]["max"] == 0


def test_the_same_nets_on_another_interpreter(digits, cnn, tmp_path):
    some = [np.load(os.path.join(digits, "%03d.npy" % i)) for i in range(3)]
    found = c2step.sweep(cnn, some, "python:" + sys.executable, jobs=1)
    assert found.report["verdicts"] == {"PASS": 3}
    assert all(operator["run"]["max_abs"]["max"] == 0 for operator in found.operators if operator["run"]["max_abs"])


# -- a cluster -------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path, checkout):
    """A Dask scheduler and two workers; their processes, the scheduler first."""
    environment = dict(os.environ, PYTHONPATH=checkout)
    place = str(tmp_path / "scheduler.json")
    common = ["--scheduler-file", place, "--no-dashboard", "--host", "127.0.0.1"]
    plans = [["scheduler", "--port", "0"]] + [["worker", "--nthreads", "1", "--no-nanny"]] * 2
    started = []
    for number, (what, *more) in enumerate(plans):
        words = [sys.executable, "-W", "ignore", "-m", "distributed.cli.dask_" + what, *common, *more]
        with open(str(tmp_path / ("dask%d.log" % number)), "wb") as log:
            started.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd=str(tmp_path)))
        while number == 0 and not os.path.exists(place) and started[0].poll() is None:
            time.sleep(0.05)
    with open(place) as file:
        yield json.load(file)["address"], started
    for process in reversed(started):
        process.terminate()
        process.wait(30)


def test_dask_workers_of_which_one_is_killed_give_the_same_report(digits, cnn, tmp_path, cluster, undisturbed):
    address, processes = cluster
    some = tmp_path / "some"
    some.mkdir()
    for number in range(0, 200, 4):
        os.symlink(os.path.join(digits, "%03d.npy" % number), str(some / ("%03d.npy" % number)))

    def progress(done, of):
        if done == 20:
            for pid in below(processes[1].pid, JOB) + [processes[1].pid]:
                os.kill(pid, signal.SIGKILL)

    found = c2step.sweep(cnn, str(some), "onnxruntime", directory=str(tmp_path / "o"), dask=address, progress=progress,
                         **TIGHT)  # fmt: skip
    assert processes[1].wait(10) == -signal.SIGKILL and processes[2].poll() is None
    assert not below(processes[2].pid, JOB)
    ours, theirs = rows_of(tmp_path / "o"), rows_of(undisturbed[0].directory)
    assert ours == theirs[::4]
    shutil.copytree(undisturbed[0].directory, str(tmp_path / "local"))
    again = []
    local = c2step.sweep(cnn, str(some), "onnxruntime", directory=str(tmp_path / "local"), jobs=1,
                         progress=lambda *at: again.append(at), **TIGHT)  # fmt: skip
    assert not again  # all of it was there
    assert found.report == local.report and found.report["inputs"] == 50


def test_no_scheduler_is_an_error(digits, cnn, monkeypatch):
    from c2step.sweeping import cluster

    monkeypatch.setattr(cluster, "_WAIT", 1)
    with pytest.raises(C2StepError, match="no Dask scheduler answers at tcp://127.0.0.1:9"):
        c2step.sweep(cnn, digits, dask="tcp://127.0.0.1:9")
