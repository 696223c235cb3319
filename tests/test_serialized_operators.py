"""Caffe2's own serialized operator tests, stepped: each of the 156 gives the outputs recorded by Caffe2's authors."""

import numpy as np
import pytest

import c2step
import serialized_operators


@pytest.fixture(scope="module")
def recorded():
    return serialized_operators.read_all(serialized_operators.folder())


@pytest.fixture(scope="module")
def session(recorded, tmp_path_factory):
    path = tmp_path_factory.mktemp("serialized") / "predict_net.pb"
    path.write_bytes(serialized_operators.net_of(recorded))
    with c2step.open(predict_net=str(path), inputs=serialized_operators.inputs_of(recorded)) as opened:
        yield opened


def differs(value, true):
    if value.shape != true.shape or value.dtype.kind != true.dtype.kind:
        return "%s %s for %s %s" % (value.dtype, value.shape, true.dtype, true.shape)
    if value.dtype.kind not in "fc":
        return "" if np.array_equal(value, true) else "other values"
    close = np.isclose(value, true, rtol=1e-4, atol=1e-4, equal_nan=True)  # the tolerance of Caffe2's own tests
    return "" if close.all() else "%d values differ" % np.count_nonzero(~close)


def test_there_are_156(recorded):
    assert len(recorded) == 156 and all(one.outputs for one in recorded)


def test_each_runs_to_the_end_and_gives_its_recorded_outputs(recorded, session):
    stop = session.cont()
    assert (stop.reason, len(stop.steps)) == ("end", 156)
    wrong = []
    for one in recorded:
        for name, true in zip(one.operator.output, one.outputs):
            value = session.fetch(name).array
            difference = "no tensor" if value is None else differs(value, true)
            if difference:
                wrong.append("%s %s: %s" % (one.name, name, difference))
    assert not wrong
