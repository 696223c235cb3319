"""Proof by replacing: with an ORIGIN's output replaced by the golden value, what gets well?"""

from typing import List

from ..recording import Keep
from ..references import Reference
from ..stepper import Session
from .blame import Blame, Judge, Judged
from .tolerance import Tolerances

__all__ = ["prove"]


def prove(session: Session, reference: Reference, found: Blame, tolerances: Tolerances) -> None:
    """Run once for each ORIGIN with its output replaced, and say in its hints which later operators become right."""
    for origin in found.origins:
        session.restart(Keep())
        trial = Judge(session, reference, tolerances)
        trial.run(replaced=origin.operator.index)
        _say(origin, found, trial.judged)


def _say(origin: Judged, found: Blame, after: List[Judged]) -> None:
    later = [j for j in found.operators if j.operator.index > origin.operator.index and j.run.bad]
    well = [j for j in later if after[j.operator.index].run.status == "ok" and not after[j.operator.index].run.bad]
    ill = [j for j in later if j not in well]
    words = "with its output replaced by the golden value, %d of %d wrong operators behind it become right" % (
        len(well),
        len(later),
    )
    if ill:
        words += "; %s stays wrong" % ill[0].operator
    origin.hints.append(words)
