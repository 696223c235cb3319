"""How far something is: on a terminal alone, not for short work, and gone afterwards."""

import io
import os
import sys
import threading

import c2step.progress
from c2step.net import Net, Operator
from c2step.progress import Progress, watched

GONE = "\r\x1b[K"


class Screen(io.StringIO):
    """Standard error as a terminal, and the time."""

    now = 0.0

    def isatty(self):
        return True

    def fileno(self):
        return 2

    def said(self):
        """What was written since."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def screened(monkeypatch):
    """Standard error as a terminal; pytest sets its own anew between fixture and test."""
    found = Screen()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((60, 24)))
    monkeypatch.setattr(c2step.progress.time, "monotonic", lambda: found.now)
    return found


def test_what_is_silent_for_a_second_is_looked_at_and_wiped(monkeypatch):
    screen = screened(monkeypatch)
    progress = Progress()
    net = Net("net", tuple(Operator(i, "Relu", "", ("x",), ("y",)) for i in range(3)))
    with progress.over(net):
        screen.now = 0.9
        progress.look("running", 0, "")
        assert not screen.said()
        with progress.over():
            screen.now = 1.1
            progress.look("running", 1, "")
            assert screen.said().startswith("\rrunning: 1 of 3 operators, at Relu")
        screen.now = 1.8
        progress.show("blame", 2, 3)
        assert screen.said().startswith("\rblame: 2 of 3")
        screen.now = 2.7  # somebody tells of it
        progress.look("running", 2, "")
        assert not screen.said()
        screen.now = 5.0
        beside = threading.Thread(target=progress.look, args=("running", 2, ""))
        beside.start()
        beside.join()
        assert not screen.said()
    assert screen.said() == GONE
    with progress.over(net):
        pass
    assert not screen.said()


def test_away_from_a_terminal_nothing_is_shown(monkeypatch):
    screen = screened(monkeypatch)
    monkeypatch.setattr(Screen, "isatty", lambda self: False)
    assert watched() is None
    screen.now = 9.0
    Progress().show("blame", 1, 2)
    assert not screen.getvalue()
