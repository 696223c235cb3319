"""What `import c2step` offers, as `help` shows it; and what the README says is there."""

import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import c2step
from c2step.compare.blame import blame
from c2step.launch import open_session, resume_session
from c2step.reproducing import make_repro
from c2step.stepper import Session
from c2step.workspace.wrapping import Wrapping
from shared_material import CHECKOUT


@pytest.mark.parametrize("ours, behind", [
    (c2step.open, open_session), (c2step.resume, resume_session), (c2step.repro, make_repro),
    (c2step.wrapped, Wrapping),
])  # fmt: skip
def test_a_function_takes_what_stands_behind_it(ours, behind):
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(behind).parameters)
    for name, parameter in inspect.signature(behind).parameters.items():
        given = inspect.signature(ours).parameters[name].default
        assert given == parameter.default or callable(given), name


@pytest.mark.parametrize("name", [name for name in c2step.__all__ if name != "C2StepError"])
def test_help_tells_types(name):
    signature = inspect.signature(getattr(c2step, name))
    assert signature.return_annotation not in ("Any", inspect.Signature.empty)
    assert [p.name for p in signature.parameters.values() if p.annotation == "Any"] in ([], ["options"])


def test_the_wrapper_has_a_help():
    words = [sys.executable, "-m", "c2step.wrap", "--help"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          env=dict(os.environ, PYTHONPATH=CHECKOUT))  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("usage: ") and "C2STEP_TYPES" in done.stdout


def test_what_the_readme_names_is_there():
    with open(os.path.join(CHECKOUT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    section = text.split("## From a script")[1].split("\n## ")[0]
    verbs = section.split("returns a `Session`, with ")[1].split(" and the others")[0]
    assert all(callable(getattr(Session, verb)) for verb in re.findall(r"`(\w+)`", verbs))
    for dotted in re.findall(r"`(c2step\.[\w.]+)", text):
        found = c2step
        for name in dotted.split(".")[1:]:
            module = getattr(found, "__name__", "")
            found = getattr(found, name, None) or __import__("%s.%s" % (module, name), fromlist=["x"])


def test_golden_values_from_the_library(models):
    folder = os.path.join(models, "digits_ceil")
    inputs = dict(np.load(os.path.join(folder, "input.npz")))
    with c2step.open(os.path.join(folder, "model.onnx"), inputs, in_process=True) as session:
        golden = c2step.against(session, os.path.join(folder, "reference.npz"))
        session.set_break("*", condition="fail")
        stop = session.cont()
        (row,) = [row for row in golden.rows(stop.steps) if not row.comparison.passed]
        assert (row.output.name, stop.reason) == ("pool1", "breakpoint")
        found = blame(session, golden.reference)
        assert [judged.operator.outputs for judged in found.origins][0] == ("pool1",)


def test_blame_takes_words_or_loaded_golden_values(models):
    folder = os.path.join(models, "digits_ceil")
    inputs = dict(np.load(os.path.join(folder, "input.npz")))
    with c2step.open(os.path.join(folder, "model.onnx"), inputs) as session:
        found = c2step.blame(session, "onnxruntime")
        again = c2step.blame(session, c2step.against(session, "onnxruntime"))
    assert [[judged.operator.type for judged in each.origins] for each in (found, again)] == [["MaxPool"], ["MaxPool"]]


def test_a_script_may_say_it_shortly(models):
    folder = os.path.join(models, "digits_ceil")
    model, x = os.path.join(folder, "model.onnx"), dict(np.load(os.path.join(folder, "input.npz")))
    (array,) = x.values()
    with c2step.open(model, array, in_process=True) as session:
        for where in (2, np.int64(2), "2"):
            assert session.until(where).position == 2 and session.operator(where).type == "MaxPool"
        assert session.goto(0).position == 0
        assert session.set_break(3, condition="nan").where == "3"
        with pytest.raises(TypeError):
            session.set_break(3, "if nan")
        session.step(3)
        found = [session.fetch("pool1").array.shape]
        session.edit(2, {"kernels": [2, 2], "strides": [1, 1]})
        assert session.rerun().position == 3
        found.append(session.fetch("pool1").array.shape)
        assert found == [(4, 8, 3, 3), (4, 8, 7, 7)]
        session.unedit(2)
        session.rerun(2)
        assert session.fetch("pool1").array.shape == found[0]
        answer = c2step.blame(session, os.path.join(folder, "reference.npz"))
        assert repr(answer) == '<Blame of %d operators: FAIL, ORIGIN operator 2 MaxPool "pool1">' % session.net_size
    with pytest.raises(c2step.C2StepError, match="arrays without names") as refused:
        c2step.open(model, [array], in_process=True)
    assert refused.value.hint == "give them by name: {'%s': array}" % list(x)[0]
