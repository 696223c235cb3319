"""Where no room is left for what operators gave, the session stands where it knows to stand, and goes on right."""

import errno
import os
import resource

import numpy as np
import pytest

import c2step
from c2step.capture import JOURNAL, Capture, CaptureWriter, disk_error
from c2step.cli import main
from c2step.errors import CaptureError, ExitStatus
from c2step.recording import Keep
from c2step.workspace.eventlog import EventReader, EventWriter, event_log

COUNT = 60
X = np.linspace(-1, 3, 300, dtype=np.float32)


@pytest.fixture(scope="module")
def truth():
    """What `a` holds after each operator when Caffe2 runs the net by itself."""
    from caffe2.python import workspace

    found = []
    for count in range(1, COUNT + 1):
        workspace.ResetWorkspace()
        workspace.FeedBlob("x", X)
        workspace.RunNetOnce(in_place(count))
        found.append(workspace.FetchBlob("a"))
    return found


def in_place(count):
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core

    net = caffe2_pb2.NetDef(name="in_place", type="simple", external_input=["x"], external_output=["a"])
    net.op.add().CopyFrom(core.CreateOperator("Relu", ["x"], ["a"]))
    for _ in range(count - 1):
        net.op.add().CopyFrom(core.CreateOperator("Scale", ["a"], ["a"], scale=1.01))
    return net


@pytest.fixture(params=[Keep(), Keep(level="stats")], ids=["kept", "not kept"])
def session(request, tmp_path):
    path = str(tmp_path / "net.pb")
    with open(path, "wb") as file:
        file.write(in_place(COUNT).SerializeToString())
    with c2step.open(predict_net=path, inputs={"x": X}, keep=request.param) as session:
        session.step()
        yield session


def no_more_events(session, more):
    """From now on the worker can write so many bytes of events and no more."""
    size = os.path.getsize(event_log(os.path.join(session.workspace.scratch, "status")))
    resource.prlimit(session.workspace.pid, resource.RLIMIT_FSIZE, (size + more, resource.RLIM_INFINITY))


def test_operators_that_ran_unheard_run_again_on_what_they_read(session, truth):
    no_more_events(session, 10000)
    with pytest.raises(CaptureError, match="^the scratch folder .* takes no more.*\n.*TMPDIR") as raised:
        session.step(40)
    assert raised.value.status == ExitStatus.CAPTURE
    stood = session.position
    assert 2 < stood < 41 and len(session.steps) == stood and {step.status for step in session.steps} == {"ok"}
    assert "D" not in session.letters.values()
    np.testing.assert_array_equal(session.fetch("a").array, truth[stood - 1])
    for position in range(stood, COUNT):
        assert session.step().reason in ("step", "end")
        np.testing.assert_array_equal(session.fetch("a").array, truth[position])
    assert session.back(COUNT - 20).position == 20
    np.testing.assert_array_equal(session.fetch("a").array, truth[19])


def test_what_could_not_be_put_back_whole_is_put_back_at_the_next_request(session, truth, monkeypatch):
    no_more_events(session, 10000)
    with pytest.raises(CaptureError):
        session.step(40)
    feed = session.workspace.feed

    def full(*words):
        monkeypatch.setattr(session.workspace, "feed", feed)
        raise CaptureError("there is no room")

    monkeypatch.setattr(session.workspace, "feed", full)
    with pytest.raises(CaptureError, match="there is no room"):
        session.step()
    assert session.cont().reason == "end"
    np.testing.assert_array_equal(session.fetch("a").array, truth[-1])


@pytest.mark.parametrize("session", [Keep()], indirect=True, ids=["kept"])
def test_a_value_that_could_not_be_written_is_written_when_there_is_room(session, truth):
    session.step(5)
    pack = [name for name in os.listdir(session.capture_directory) if name.endswith(".pack")]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = os.path.getsize(os.path.join(session.capture_directory, pack[0]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        with pytest.raises(CaptureError):
            session.step(10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    lost = session.position
    assert session.cont().reason == "end"
    for version in range(1, COUNT + 1):
        np.testing.assert_array_equal(session.fetch("a", version).array, truth[version - 1])
    session.back(COUNT - lost)
    np.testing.assert_array_equal(session.fetch("a").array, truth[lost - 1])


def test_an_event_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = str(tmp_path / "events")
    writer, reader = EventWriter(path), EventReader(path)
    write, room = os.write, [7, 9]

    def short(file, data):
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[: room.pop()])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(CaptureError, match="the scratch folder %s is full" % tmp_path):
        writer.write({"index": 1})
    assert os.path.getsize(path) == 0
    room += [100, 3]
    writer.write({"index": 2})
    assert reader.read() == [{"index": 2}]
    os.close(writer._file)
    reader.close()


def test_dump_counts_what_the_journal_tells_of(tmp_path, monkeypatch, capsys):
    net, inputs, out = str(tmp_path / "net.pb"), str(tmp_path / "x.npz"), str(tmp_path / "out")
    with open(net, "wb") as file:
        file.write(in_place(COUNT).SerializeToString())
    np.savez(inputs, x=X)

    def full(writer, lines):
        raise disk_error(OSError(errno.ENOSPC, "no space left"), os.path.join(writer.path, JOURNAL))

    monkeypatch.setattr(CaptureWriter, "add_lines", full)
    assert main(["dump", "--predict-net", net, "--input", inputs, "-o", out]) == ExitStatus.CAPTURE
    assert Capture(out).rows == []
    assert "0 of %d operators, 0 blobs," % COUNT in capsys.readouterr().out
