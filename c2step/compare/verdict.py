"""PASS, FAIL, INCONCLUSIVE, and how many small verdicts make a large one.

A verdict cannot pass by looking away: PASS means that something was compared, that all of it was
close, and that whatever was not compared has a reason that the caller accepted beforehand.  Anything else
that was not compared makes the whole INCONCLUSIVE; one difference makes it FAIL, however little was compared.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Dict, Iterable, List

from ..errors import ExitStatus

__all__ = ["Tally", "Verdict"]


class Verdict(Enum):
    """How a comparison ends."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"

    def __str__(self) -> str:
        return self.value

    @property
    def status(self) -> ExitStatus:
        """The exit status that says the same."""
        return {
            Verdict.PASS: ExitStatus.OK,
            Verdict.FAIL: ExitStatus.DIFFERS,
            Verdict.INCONCLUSIVE: ExitStatus.INCONCLUSIVE,
        }[self]

    @classmethod
    def worst(cls, verdicts: Iterable["Verdict"]) -> "Verdict":
        """FAIL before INCONCLUSIVE before PASS; no verdict at all is INCONCLUSIVE."""
        found = set(verdicts)
        for verdict in (cls.FAIL, cls.INCONCLUSIVE, cls.PASS):
            if verdict in found:
                return verdict
        return cls.INCONCLUSIVE


@dataclass
class Tally:
    """Counts of what was compared and what was not, with the reasons.

    `compared` includes `failed`.  `skipped` were there but not compared, `missing` were not there on
    one side; `accepted` counts those among the two whose reason does not stand in the way of a PASS.  What was
    set `aside` has no counterpart by nature (a value inside an ONNX node) and is neither.
    """

    compared: int = 0
    skipped: int = 0
    missing: int = 0
    failed: int = 0
    accepted: int = 0
    aside: int = 0
    reasons: List[str] = field(default_factory=list)

    def add(self, verdict: Verdict, reason: str = "") -> None:
        """Count one comparison; an INCONCLUSIVE one counts as skipped."""
        if verdict is Verdict.INCONCLUSIVE:
            self.skip(reason or "inconclusive")
            return
        self.compared += 1
        if verdict is Verdict.FAIL:
            self.failed += 1
            self._note(reason)

    def skip(self, reason: str, accepted: bool = False) -> None:
        """Count one value that was there but could not be compared."""
        self.skipped += 1
        self._leave_out(reason, accepted)

    def miss(self, reason: str, accepted: bool = False) -> None:
        """Count one value that one side does not have."""
        self.missing += 1
        self._leave_out(reason, accepted)

    def set_aside(self, reason: str) -> None:
        """Count one value that by nature has nothing to compare with."""
        self.aside += 1
        self._note(reason)

    def merge(self, other: "Tally") -> None:
        """Add the counts and reasons of another tally."""
        self.compared += other.compared
        self.skipped += other.skipped
        self.missing += other.missing
        self.failed += other.failed
        self.accepted += other.accepted
        self.aside += other.aside
        self.reasons.extend(other.reasons)

    def _leave_out(self, reason: str, accepted: bool) -> None:
        # A reason that was not given cannot have been accepted.
        self.accepted += bool(accepted and reason)
        self._note(reason or "no reason given")

    def _note(self, reason: str) -> None:
        if reason:
            self.reasons.append(reason)

    @property
    def verdict(self) -> Verdict:
        """The verdict over everything counted."""
        if self.failed:
            return Verdict.FAIL
        if not self.compared or self.skipped + self.missing > self.accepted:
            return Verdict.INCONCLUSIVE
        return Verdict.PASS

    def line(self) -> str:
        """One line: the verdict and its counts."""
        parts = ["%d compared" % self.compared, "%d failed" % self.failed]
        for count, word in ((self.skipped, "skipped"), (self.missing, "missing")):
            parts.append("%d %s" % (count, word))
        if self.accepted:
            parts.append("%d of those by nature, with nothing to compare" % self.accepted)
        if self.aside:
            parts.append("%d without a golden value by nature" % self.aside)
        return "%s: %s" % (self.verdict, ", ".join(parts))

    def summary(self) -> List[str]:
        """The reasons, each once, with how often it was given."""
        return [
            reason if count == 1 else "%s (%d times)" % (reason, count)
            for reason, count in Counter(self.reasons).items()
        ]

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        return {
            "verdict": str(self.verdict),
            "compared": self.compared,
            "skipped": self.skipped,
            "missing": self.missing,
            "failed": self.failed,
            "accepted": self.accepted,
            "aside": self.aside,
            "reasons": self.summary(),
        }
