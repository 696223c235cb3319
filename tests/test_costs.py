"""What a step costs, in round trips, copies and bytes: counts, which are the same on any machine."""

import os
import tracemalloc

import numpy as np
import pytest

import c2step
from c2step.capture import NPY_HEADER, Capture
from c2step.recording import Keep
from small_nets import written

TINY = [("Relu", ["x%d" % i], ["x%d" % (i + 1)], {}) for i in range(200)]
LARGE = [("Relu", ["x"], ["y"], {}), ("Sigmoid", ["y"], ["z"], {}), ("Relu", ["z"], ["z"], {})]
VALUES = np.linspace(-3, 3, 1 << 20, dtype=np.float32)


def opened(folder, operators, name, array, **options):
    return c2step.open(None, {name: array}, predict_net=written(operators, [name], folder), **options)


@pytest.fixture
def tiny(tmp_path):
    with opened(tmp_path, TINY, "x0", np.arange(8, dtype=np.float32)) as session:
        yield session


def requests(session, verb):
    before = session.workspace.requests
    verb()
    return session.workspace.requests - before


def written_bytes(session):
    with open("/proc/%d/io" % session.workspace.pid) as file:
        return int(dict(line.split(": ") for line in file)["wchar"])


def read_bytes(session):
    with open("/proc/%d/io" % session.workspace.pid) as file:
        return int(dict(line.split(": ") for line in file)["rchar"])


def test_one_round_trip_however_many_operators_run(tiny):
    assert requests(tiny, lambda: tiny.step()) == 1
    assert requests(tiny, lambda: tiny.until("100")) == 1
    assert requests(tiny, lambda: tiny.cont()) == 1
    assert len(tiny.steps) == 200


def test_no_look_at_a_tensor_loads_torch(tiny):
    tiny.set_break("Relu", condition="nan")
    tiny.watch("x20")
    tiny.patch("x5", np.zeros(8, np.float32))
    tiny.cont()
    tiny.fetch("x20"), tiny.summary("x3")
    tiny.back(5)
    with open("/proc/%d/maps" % tiny.workspace.pid) as file:
        loaded = file.read()
    assert "caffe2_pybind11_state" in loaded and "torch_python" not in loaded


def test_conditions_on_summaries_need_no_round_trip_and_python_one_each(tiny):
    tiny.set_break("Relu", condition="nan or max > 100")
    assert requests(tiny, lambda: tiny.until("100")) == 1
    tiny.set_break("Relu", condition="(out > 100).any()")
    assert requests(tiny, lambda: tiny.cont()) == 100


def test_python_over_values_that_are_not_kept_asks_for_no_value_twice(tmp_path):
    with opened(tmp_path, TINY, "x0", np.arange(8, dtype=np.float32), keep=Keep(level="stats")) as session:
        session.set_break("Relu", condition="(out + x1 + x0 > 100).any()")
        assert requests(session, session.cont) == len(TINY) + 2  # for x0, which nothing wrote, and for x1


def test_what_a_run_wants_is_said_once(tiny):
    before = read_bytes(tiny)
    tiny.step()
    first, before = read_bytes(tiny) - before, read_bytes(tiny)
    for _ in range(50):
        tiny.step()
    assert first > 250 and (read_bytes(tiny) - before) / 50 < 120


def test_no_operator_is_made_before_it_is_asked_for(tiny):
    """Its constructor may hang or die; it would leave an output without a value here."""
    tiny.step()
    assert [row["kind"] for row in tiny.workspace.peek(["x1", "x2"])] == ["tensor", "missing"]


def test_looking_at_steps_that_ran_asks_nobody(tiny):
    tiny.cont()
    assert requests(tiny, lambda: [tiny.summary("x%d" % i, 1) for i in range(1, 201)]) == 0


def test_going_back_over_blobs_that_were_written_once_moves_no_bytes(tiny):
    tiny.cont()
    before = written_bytes(tiny)
    assert requests(tiny, lambda: tiny.back(150)) <= 1
    assert written_bytes(tiny) - before < 100


def test_small_blobs_make_no_files_and_few_bytes(tiny):
    before = written_bytes(tiny)
    tiny.cont()
    assert (written_bytes(tiny) - before) / 200 < 80
    files = {
        name: os.path.getsize(os.path.join(tiny.capture_directory, name)) for name in os.listdir(tiny.capture_directory)
    }
    assert sorted(files) == ["blobs.pack", "capture.json", "journal.jsonl"]
    assert files["blobs.pack"] == 200 * (NPY_HEADER + 8 * 4)
    assert files["journal.jsonl"] / 200 < 330


def test_a_large_blob_is_written_once(tmp_path):
    with opened(tmp_path, LARGE, "x", VALUES) as session:
        before = written_bytes(session)
        session.cont()
        assert 3 * VALUES.nbytes < written_bytes(session) - before < 3 * VALUES.nbytes + 5000


def test_a_large_blob_that_is_not_kept_is_written_nowhere(tmp_path):
    with opened(tmp_path, LARGE, "x", VALUES, keep=Keep(level="stats")) as session:
        before = written_bytes(session)
        session.cont()
        assert written_bytes(session) - before < 5000


def test_summaries_and_files_are_made_without_a_copy(tmp_path):
    """numpy tells tracemalloc of every array that it makes; the blob is Caffe2's own memory."""
    with opened(tmp_path, LARGE, "x", VALUES, keep=Keep(str(tmp_path / "kept")), in_process=True) as session:
        session.step()
        tracemalloc.start()
        session.cont()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < VALUES.nbytes / 8


def test_a_blob_of_a_capture_is_looked_up_not_searched(tmp_path):
    with opened(tmp_path, TINY, "x0", np.arange(8, dtype=np.float32)) as session:
        session.cont()
        captured = Capture(session.capture_directory)
        captured._blobs = OnlyLookedUp(captured._blobs)
        assert captured.find("x200").index == 199 and captured.load("x7").array.shape == (8,)
        assert captured.find("x7", 1).index == 6


class OnlyLookedUp(dict):
    """A dict that nobody may go through."""

    def __iter__(self):
        raise AssertionError("gone through")

    items = values = keys = __iter__
