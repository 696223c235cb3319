"""Operators whose only output is a large tensor: summarised where it is, told in few bytes."""

import json
import os

import numpy as np
import pytest

import c2step
from c2step.blob import TENSOR, BlobSummary
from c2step.capture import Capture
from c2step.journal import Journal
from c2step.recording import Keep
from c2step.workspace import LargeEvent
from c2step.workspace.eventlog import EventReader, EventWriter
from small_nets import written

NET = [
    ("Relu", ["x"], ["y"], {}),
    ("Negative", ["y"], ["z"], {}),
    ("Relu", ["z"], ["z"], {}),
    ("Sigmoid", ["y"], ["w"], {}),
]
VALUES = np.linspace(-3, 5, 300 * 1000, dtype=np.float32).reshape(3, 100, 1000)


@pytest.mark.parametrize("min_", [None, -1.5])
@pytest.mark.parametrize("file", [None, "000003-0-y.npy"])
def test_an_event_comes_back_as_it_was(tmp_path, min_, file):
    figures = (None,) * 4 if min_ is None else (min_, 2.5, 1.0 / 3, float("inf"))
    summary = BlobSummary(TENSOR, "float16", (3, 5, 7), *figures, zeros=3, nan=1 << 40, inf=2)
    path = str(tmp_path / "events")
    reader, writer = EventReader(path), EventWriter(path)
    events = [LargeEvent(7, 0.25, summary, file), {"index": 8, "outputs": [], "status": "ok"}]
    for event in events:
        writer.write(event)
    assert reader.read() == events and reader.read() == []
    reader.close()


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize("level", ["full", "stats"])
def test_what_is_told_and_kept(tmp_path, level, in_process):
    x = VALUES.copy()
    x[1, 2, 3:5] = np.nan, np.inf
    folder, kept = written(NET, ["x"], tmp_path), str(tmp_path / "kept")
    with c2step.open(
        None, {"x": x}, predict_net=folder, keep=Keep(kept, level=level), in_process=in_process
    ) as session:
        assert session.run().reason == "end"
        y = np.maximum(x, 0)
        truth = {("y", 1): y, ("z", 1): -y, ("z", 2): np.maximum(-y, 0), ("w", 1): 1 / (1 + np.exp(-y))}
        for (name, version), array in truth.items():
            check(session.summary(name, version), array)
    with open(os.path.join(kept, "journal.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert [row["outputs"][0]["summary"]["shape"] for row in rows] == [[3, 100, 1000]] * 4
    stored = Capture(kept)
    for name, version in truth:
        blob = stored.find(name, version)
        check(blob.summary, truth[name, version])
        assert (blob.file is None) == (level == "stats")
        if blob.file:
            np.testing.assert_allclose(stored.load(name, version).array, truth[name, version], rtol=1e-6)


def check(summary, array):
    finite = array[np.isfinite(array)].astype(np.float64)
    assert (summary.kind, summary.dtype, summary.shape) == ("tensor", "float32", array.shape)
    assert (summary.nan, summary.inf) == (np.isnan(array).sum(), np.isinf(array).sum())
    assert summary.zeros == (finite == 0).sum()
    found = (summary.min, summary.max, summary.mean, summary.std)
    np.testing.assert_allclose(found, (finite.min(), finite.max(), finite.mean(), finite.std()), rtol=2e-6, atol=1e-7)


def test_a_line_of_the_journal_says_what_json_says(tmp_path):
    odd = VALUES.copy()
    odd[:] = np.nan
    for number, x in enumerate((VALUES, odd, np.full((2000,), 3e38, np.float32))):
        folder = written(NET, ["x"], tmp_path)
        with c2step.open(None, {"x": x}, predict_net=folder, keep=Keep(str(tmp_path / ("kept%d" % number)))) as session:
            session.run()
            for step in session.steps:
                assert json.loads(Journal().line(step)) == json.loads(json.dumps(step.to_json()))


def test_the_limit_on_bytes_counts_them(tmp_path):
    size = VALUES.nbytes + 128
    folder = written(NET, ["x"], tmp_path)
    for on_full, ran, files in (("skip", 4, 2), ("stop", 2, 2)):
        kept = str(tmp_path / on_full)
        keep = Keep(kept, max_bytes=2 * size + 5, on_full=on_full)
        with c2step.open(None, {"x": VALUES}, predict_net=folder, keep=keep) as session:
            assert session.run().reason == {"skip": "end", "stop": "full"}[on_full]
            assert len(session.steps) == ran
        assert len([name for name in os.listdir(kept) if name.endswith(".npy") and "-0-" in name]) == files
