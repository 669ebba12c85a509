"""`check`: a pure function of a history."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from tests.chaos.checking import asking, coverage, gated, invariants, runs, workflows
from tests.chaos.checking.fires import check_fires
from tests.chaos.checking.history import History


@dataclass(frozen=True)
class Verdict:
    """`broken`: promises that did not hold. `uncovered`: what the run never tried."""

    broken: list[str]
    uncovered: list[str]
    coverage: Counter[str]
    fires: dict[str, int]

    @property
    def word(self) -> str:
        """``green``, ``inconclusive`` or ``broken``."""
        if self.broken:
            return "broken"
        return "inconclusive" if self.uncovered else "green"


def check(history: History) -> Verdict:
    """Every checker on the whole history."""
    problems, fires = check_fires(history)
    broken = itertools.chain(
        problems,
        runs.check_once(history),
        asking.check_acknowledged(history),
        runs.check_success(history),
        runs.check_at_most_once(history),
        runs.check_overlap(history),
        runs.check_attempts(history),
        runs.check_outcomes(history),
        asking.check_keys(history),
        gated.check_gates(history),
        workflows.check_workflows(history),
        invariants.check_looks(history),
        invariants.check_services(history),
        invariants.check_drained(history),
        invariants.check_server_log(history),
    )
    seen = coverage.coverage(history)
    return Verdict(list(broken), coverage.uncovered(seen), seen, fires)
