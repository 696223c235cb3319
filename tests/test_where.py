"""Whatever a screen calls an operator, WHERE takes; the list of operators is the truth."""

import io
import re

import numpy as np
import pytest

import c2step
from c2step.errors import UsageError
from c2step.repl.completion import complete
from c2step.repl.environment import Environment
from c2step.repl.loop import make_interpreter
from small_nets import written

NET = [  # in place, as deployed nets are: only the names tell the operators apart
    ("Scale", ["x"], ["c"], {"scale": 2.0, "name": "conv1"}),
    ("Relu", ["c"], ["c"], {"name": "relu1"}),
    ("Relu", ["c"], ["c"], {"name": "scale 2"}),
    ("Copy", ["c"], ["relu2"], {"name": "Relu"}),
    ("Relu", ["relu2"], ["y"], {"name": "relu2"}),
]


@pytest.fixture
def session(tmp_path):
    path = written(NET, ["x"], tmp_path)
    with c2step.open(predict_net=path, inputs={"x": np.ones((2, 2), np.float32)}, in_process=True) as opened:
        yield opened


@pytest.fixture
def say(session, tmp_path):
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO(), False, False, str(tmp_path), str(tmp_path))
    interpreter = make_interpreter(session, environment)
    yield lambda line: "\n".join(result.text for result in interpreter.run(line))
    interpreter.context.close()


@pytest.mark.parametrize("where, index", [
    ("conv1", 0), ("relu1", 1), ("scale 2", 2), ("name:relu1", 1), ("name:relu2", 4), ("name:Relu", 3),
    ("relu2", 3), ("Relu", 1), ("type:Copy", 3), ("blob:relu2", 3),
])  # fmt: skip
def test_a_name_is_an_operator_after_blobs_and_types(session, where, index):
    assert session.operator(where).index == index


def test_every_name_that_is_listed_is_taken_by_every_verb(say, session):
    tried = []
    for line in say("list all").splitlines():
        match = re.match(r"(?:-->)? *\S +(\d+) +\S+ +(\"[^\"]*\"|\S+) +\(", line)
        if match and match.group(2) not in ("Relu", "relu2"):
            index, name = match.groups()
            tried.append(name)
            for verb in ("until", "goto", "op", "list", "rerun"):
                session.restart()
                if verb == "rerun":
                    session.step(len(NET))
                assert "no operator" not in say("%s %s" % (verb, name))
                assert session.position == {"until": int(index), "goto": int(index), "rerun": int(index) + 1}.get(
                    verb, 0
                )
    assert tried == ["conv1", "relu1", '"scale 2"']


def test_a_breakpoint_at_a_name_and_at_a_pattern_of_names(say, session):
    say("break relu1")
    assert say("continue").endswith("--> 1 Relu relu1  (c) -> (c)")
    say("delete; restart; break 'scale*'")
    assert session.cont().position == 2
    say("delete; restart; break name:relu2 if max > 0")
    assert session.cont().position == 5


def test_near_names_are_those_that_are_listed(session):
    with pytest.raises(UsageError) as caught:
        session.operator("name:relu3")
    assert "relu2" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        session.operator("conv2")
    assert "conv1" in caught.value.hint


def test_names_are_completed(say, session, tmp_path):
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO(), False, False, str(tmp_path), str(tmp_path))
    interpreter = make_interpreter(session, environment)
    assert [found.text for found in complete("until conv", interpreter)] == ["conv1"]
    interpreter.context.close()


def test_a_breakpoint_whose_operators_an_edit_took_away_does_not_end_the_list(say, session):
    say("break Copy")
    say("edit 3 type=Relu")
    assert "3  Relu" in say("list all")
