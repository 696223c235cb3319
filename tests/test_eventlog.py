"""What operators gave comes out of the log as it went in, also where the worker is stopped in the middle of it."""

import os

import numpy as np
import pytest

from c2step.workspace import SmallEvent
from c2step.workspace.eventlog import EventReader, EventWriter

DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")
LARGE = {"index": 3, "status": "failed", "error": 'no "x"\nnor é', "seconds": 0.5, "outputs": []}


def small(operator, dtype="float32", shape=(2, 3), pack=True):
    return SmallEvent(operator, 1.5e-6, dtype, shape, np.zeros(shape, dtype).tobytes(), pack)


@pytest.fixture
def log(tmp_path):
    path = str(tmp_path / "events")
    return EventWriter(path), EventReader(path), path


def test_events_come_out_as_they_went_in(log):
    writer, reader, _ = log
    events = [small(i, dtype, shape) for i, dtype in enumerate(DTYPES) for shape in ((), (1,), (2, 3), (4000,))]
    events += [LARGE, small(70000, pack=False), LARGE]
    for event in events:
        writer.write(event)
    assert reader.read() == events and reader.read() == []
    writer.write(LARGE)
    assert reader.read() == [LARGE]


@pytest.mark.parametrize("event", [small(1), LARGE], ids=["small", "large"])
def test_an_event_that_is_not_whole_is_left_and_goes_away_when_all_begins_anew(log, event):
    writer, reader, path = log
    writer.write(small(0))
    size = os.path.getsize(path)
    writer.write(event)
    with open(path, "rb") as file:
        whole = file.read()
    for cut in range(size, len(whole)):
        os.truncate(path, 0)
        with open(path, "ab") as file:
            file.write(whole[:cut])
        again = EventReader(path)
        assert again.read() == [small(0)]
        again.clear()
        assert os.path.getsize(path) == (0 if cut > size else size)
        again.close()
    writer.write(LARGE)
