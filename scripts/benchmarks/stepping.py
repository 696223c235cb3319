"""Stepping: whole nets with summaries, one step at the prompt, conditions, going back."""

import io
import os
from typing import List

from c2step.repl.environment import Environment
from c2step.repl.loop import make_interpreter
from c2step.stepper import Keep, Session

from .setting import Setting
from .table import Row
from .timing import added, alternate, quotient, timed

__all__ = ["back", "condition", "go_on", "prompt_step", "step", "stepping"]

_NAMES = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2", "squeezenet1_1": "SqueezeNet 1.1", "vgg16": "VGG-16",
          "lstm100": "LSTM of 100 steps, unrolled"}  # fmt: skip
_BARS = {"resnet50": 1.15, "mobilenet_v2": 1.3, "squeezenet1_1": 1.3}
_MANY = 5000
_TINY = 100


def name_of(model: str) -> str:
    """A model's name as people write it."""
    return _NAMES[model]


def stepping(setting: Setting) -> List[Row]:
    """All operators with summaries, nothing saved, through the worker, against RunNet."""
    return [_stepping(setting, name) for name in _NAMES]


def _stepping(setting: Setting, name: str) -> Row:
    model = setting.model(name)
    with model.session() as session:
        loaded = setting.load(model, session)
        sides = {"ours": timed(session.run), "theirs": lambda: setting.bare.seconds("run", name=loaded)}
        seconds = alternate(sides, setting.rounds(5 if name == "vgg16" else 15), 2)
        setting.check_same(model, session)
        count = session.net_size
    found = quotient(seconds["ours"], seconds["theirs"])
    what = "stepping %s, %d operators, with summaries" % (name_of(name), count)
    return Row("stepping", what, "`RunNet`", "x", _BARS.get(name), found)


def step(setting: Setting) -> List[Row]:
    """One `Session.step` of a tiny operator, everything kept, against RunOperatorOnce."""
    model = setting.chain(_TINY)
    with model.session(Keep()) as session:
        return [_one_step(setting, session, model.name, "one `Session.step`, tiny operator", session.step)]


def prompt_step(setting: Setting) -> List[Row]:
    """One `step` typed at the prompt: read, run, kept, and told."""
    model = setting.chain(_TINY)
    with model.session(Keep()) as session:
        interpreter = make_interpreter(session, unseen())

        def typed() -> None:
            for result in interpreter.run("step"):
                interpreter.context.show(result.text)

        return [_one_step(setting, session, model.name, "one `step` at the prompt, tiny operator", typed)]


def _one_step(setting: Setting, session: Session, name: str, what: str, work: object) -> Row:
    setting.load(setting.chain(_TINY), session)
    sides = {"ours": timed(work), "theirs": lambda: setting.bare.seconds("once", name=name, index=0, times=20)}
    seconds = alternate(sides, setting.rounds(90), 5)
    found = added([s * 1e6 for s in seconds["ours"]], [s * 1e6 for s in seconds["theirs"]])
    return Row("step", what, "`RunOperatorOnce`, added to it", "us", 150.0, found)


def unseen() -> Environment:
    """Streams that nobody reads."""
    return Environment(io.StringIO(), open(os.devnull, "w"), open(os.devnull, "w"))


def go_on(setting: Setting) -> List[Row]:
    """`continue` over many tiny operators, nothing set."""
    return [_go_on(setting, "`continue` over 5,000 tiny operators", "continue", 20.0, [])]


def condition(setting: Setting) -> List[Row]:
    """The same with a condition after every operator: one that figures tell, and Python over the arrays."""
    python = _go_on(setting, "the same, a Python condition on each", "condition", 200.0, ["(y0 == 7).mean() > 2"])
    figures = _go_on(setting, "the same, `if nan` on each", "condition", 200.0, ["nan"])
    return [figures, python]


def _go_on(setting: Setting, what: str, key: str, bar: float, conditions: List[str]) -> Row:
    model = setting.chain(_MANY)
    with model.session() as session:
        loaded = setting.load(model, session)
        for text in conditions:
            session.set_break("*", condition=text)
        sides = {"ours": timed(session.run), "theirs": lambda: setting.bare.seconds("run", name=loaded)}
        seconds = alternate(sides, setting.rounds(9), 1)
        setting.check_same(model, session)
        assert len(session.steps) % _MANY == 0, "a condition stopped the run"
    found = added([s * 1e6 for s in seconds["ours"]], [s * 1e6 for s in seconds["theirs"]], _MANY)
    return Row(key, what, "`RunNet`, added for an operator", "us", bar, found)


def back(setting: Setting) -> List[Row]:
    """Going back 50 operators in ResNet-50 against running them forward."""
    model = setting.model("resnet50")
    with model.session(Keep()) as session:
        session.step(100)
        seconds = alternate({"ours": timed(lambda: session.back(50))}, 0, 0)
        for number in range(setting.rounds(12) + 1):
            behind, forward = timed(lambda: session.back(50))(), timed(lambda: session.step(50))()
            if number:
                seconds.setdefault("forward", []).append(forward)
                seconds["ours"].append(behind)
    found = quotient(seconds["ours"], seconds["forward"])
    return [Row("back", "going back 50 operators in ResNet-50", "running them forward", "x", 0.2, found)]
