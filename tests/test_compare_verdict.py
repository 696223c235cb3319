"""A PASS needs something compared and nothing left out without an accepted reason."""

import itertools

import pytest

from c2step.compare import Tally, Verdict
from c2step.errors import ExitStatus

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def test_nothing_compared_is_no_pass() -> None:
    assert Tally().verdict is INCONCLUSIVE
    tally = Tally()
    tally.skip("random operator", accepted=True)
    assert tally.verdict is INCONCLUSIVE


def test_all_close() -> None:
    tally = Tally()
    tally.add(PASS)
    assert tally.verdict is PASS and tally.line() == "PASS: 1 compared, 0 failed, 0 skipped, 0 missing"


@pytest.mark.parametrize("leave_out", ["skip", "miss"])
def test_what_is_left_out_must_be_accepted(leave_out: str) -> None:
    for reason, accepted, verdict in (("why", False, INCONCLUSIVE), ("why", True, PASS), ("", True, INCONCLUSIVE)):
        tally = Tally()
        tally.add(PASS)
        getattr(tally, leave_out)(reason, accepted)
        assert tally.verdict is verdict
        assert tally.reasons == [reason or "no reason given"]
        tally.add(FAIL, "conv1 differs")
        assert tally.verdict is FAIL


def test_accepted_ones_do_not_excuse_others() -> None:
    tally = Tally()
    tally.add(PASS)
    tally.skip("random operator", accepted=True)
    tally.miss("no reference")
    assert tally.verdict is INCONCLUSIVE
    assert (
        tally.line()
        == "INCONCLUSIVE: 1 compared, 0 failed, 1 skipped, 1 missing, 1 of those by nature, with nothing to compare"
    )


def test_an_inconclusive_comparison_counts_as_skipped() -> None:
    tally = Tally()
    tally.add(PASS)
    tally.add(INCONCLUSIVE, "mask is uninitialised")
    assert (tally.compared, tally.skipped, tally.verdict) == (1, 1, INCONCLUSIVE)


def test_merging_is_adding() -> None:
    for verdicts in itertools.product((PASS, FAIL, INCONCLUSIVE), repeat=3):
        whole, first, second = Tally(), Tally(), Tally()
        for i, verdict in enumerate(verdicts):
            whole.add(verdict, "why")
            (first if i < 2 else second).add(verdict, "why")
        first.merge(second)
        assert first == whole
        assert whole.verdict is Verdict.worst(verdicts)
        assert whole.to_json()["verdict"] == str(whole.verdict)


def test_reasons_are_counted() -> None:
    tally = Tally()
    for _ in range(3):
        tally.skip("no reference")
    tally.miss("conv1 is missing")
    assert tally.summary() == ["no reference (3 times)", "conv1 is missing"]


def test_the_worst_and_the_exit_status() -> None:
    assert Verdict.worst([]) is INCONCLUSIVE
    assert Verdict.worst([PASS, INCONCLUSIVE]) is INCONCLUSIVE
    assert Verdict.worst([PASS, INCONCLUSIVE, FAIL]) is FAIL
    assert [v.status for v in (PASS, FAIL, INCONCLUSIVE)] == [
        ExitStatus.OK,
        ExitStatus.DIFFERS,
        ExitStatus.INCONCLUSIVE,
    ]
