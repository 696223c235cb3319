"""Summaries that are made late are those that would have been made at once."""

import numpy as np

from c2step import unsummarised
from c2step.blob import TENSOR, Blob
from c2step.unsummarised import Unsummarised

ARRAYS = [np.random.RandomState(seed).randn(2 + seed % 3, 4).astype(dtype)
          for seed in range(300) for dtype in ("float32", "int32")]  # fmt: skip


def test_summaries_are_those_of_the_blobs():
    kept = Unsummarised()
    waiting = [kept.add(str(a.dtype), a.shape, a.tobytes()) for a in ARRAYS]
    assert [one.summary for one in waiting] == [Blob("", TENSOR, a).summary() for a in ARRAYS]


def test_none_is_made_before_it_is_asked_for_and_then_all_at_once(monkeypatch):
    calls = []
    whole = unsummarised.row_figures
    monkeypatch.setattr(unsummarised, "row_figures", lambda rows: calls.append(len(rows)) or whole(rows))
    kept = Unsummarised()
    waiting = [kept.add("float32", (8,), np.full(8, i, np.float32).tobytes()) for i in range(100)]
    assert calls == [] and waiting[40].summary.mean == 40 and calls == [100]
    assert waiting[99].summary.mean == 99 and calls == [100]


def test_no_more_values_are_held_than_those_that_came_last():
    kept = Unsummarised()
    waiting = [kept.add("float32", (8,), bytes(32)) for _ in range(2000)]
    assert sum(one.values is not None for one in waiting) <= 512 and waiting[-1].values.tolist() == [0] * 8
    assert all(one.summary.size == 8 for one in waiting)
