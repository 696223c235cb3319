"""Who waits stays awake only while answers come soon."""

import os
from types import SimpleNamespace

import pytest

from c2step.workspace import awake
from c2step.workspace.awake import Awake


class Clock:
    """A clock that goes on by so many seconds each time that somebody looks at it."""

    def __init__(self):
        self.now, self.tick, self.looks = 0.0, 0.0, 0

    def perf_counter(self):
        self.looks += 1
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(awake, "time", made)
    monkeypatch.setattr(awake, "os", SimpleNamespace(cpu_count=lambda: 2))
    return made


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_it_looks_once_answers_have_come_soon_and_no_longer_when_one_has_not(clock, pipe):
    waiting = Awake(pipe[0])
    os.write(pipe[1], b"x")
    for _ in range(8):
        assert waiting.look() == [] and waiting.wait(0) != []
        waiting.came()
    assert waiting.look() == waiting.wait()
    os.read(pipe[0], 1)
    clock.tick, before = 0.00005, clock.looks
    assert waiting.look() == [] and clock.looks - before > 3
    waiting.came()
    os.write(pipe[1], b"x")
    assert waiting.look() == []


def test_with_a_single_core_it_does_not_look(clock, pipe, monkeypatch):
    monkeypatch.setattr(awake, "os", SimpleNamespace(cpu_count=lambda: 1))
    waiting = Awake(pipe[0])
    os.write(pipe[1], b"x")
    for _ in range(20):
        assert waiting.look() == []
        waiting.came()
