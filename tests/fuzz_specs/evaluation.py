"""Evaluates a case in all the ways the product does, and measures each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import thread_time
from typing import Final, TypeVar

from pgcron_ha.errors import PgcronError
from tests.fuzz_specs.grammar import Case
from tests.product.model import plan
from tests.product.spec import MOST_STEPS, Spec, parse_spec, preview, spent

MOST_SEARCHES: Final = {"parse": 1, "next": 1, "previous": 3, "preview": 3, "plan": 16}
"""How many times the steps of one search each may take. A plan that finds nothing cheap looks ahead
five times and back three times, which takes three each; once it has taken those of two, it counts
nothing.
"""

_SEED: Final = "00000000-0000-4000-8000-000000000001"
_MICROSECOND: Final = timedelta(microseconds=1)
_Answer = TypeVar("_Answer")


@dataclass
class Cost:
    """Of one evaluation."""

    what: str
    steps: int
    seconds: float


class Contradiction(AssertionError):
    """Two evaluations of one spec say different things."""


class Evaluation:
    """Of one case; its costs, and what was wrong."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.costs: list[Cost] = []
        self.is_refused = False

    def run(self) -> None:
        """Raises anything that is not a refusal of ours, and `Contradiction`."""
        case = self.case
        try:
            spec = self._measured(
                "parse",
                lambda: parse_spec(case.spec, case.timezone, case.dst, _SEED, case.calendars),
            )
        except PgcronError:
            self.is_refused = True
            return
        for evaluate in (self._look, self._preview, self._plan):
            try:
                evaluate(spec)
            except PgcronError:
                self.is_refused = True

    def over_budget(self) -> list[Cost]:
        """Evaluations that took more steps than they may; what follows a step may overrun a bit."""
        return [
            cost for cost in self.costs if cost.steps > (MOST_SEARCHES[cost.what] + 1) * MOST_STEPS
        ]

    def _look(self, spec: Spec) -> None:
        now = self.case.now
        fire = self._measured("next", lambda: spec.next(now))
        if fire is not None:
            _agree(fire > now, f"next of {now} is {fire}")
            again = self._measured("next", lambda: spec.next(fire - _MICROSECOND))
            _agree(again == fire, f"{fire} is a fire after {now}, but not after itself: {again}")
        before = self._measured("previous", lambda: spec.previous(now))
        if before is not None:
            _agree(before < now, f"previous of {now} is {before}")
            again = self._measured("next", lambda: spec.next(before - _MICROSECOND))
            _agree(again == before, f"{before} is before {now}, but not a fire: {again}")
            between = self._measured("next", lambda: spec.next(before))
            _agree(between is None or between >= now, f"{between} is between {before} and {now}")

    def _preview(self, spec: Spec) -> None:
        shown = self._measured("preview", lambda: preview(spec, self.case.now, 5))
        fires = [one.fire_at for one in shown.fires]
        _agree(fires == sorted(set(fires)), "a preview is not in order")

    def _plan(self, spec: Spec) -> None:
        case = self.case
        watermark, end = case.now - case.late, case.now + timedelta(seconds=60)
        grace = timedelta(seconds=10)
        planned = self._measured(
            "plan",
            lambda: plan(
                *(spec, watermark, case.now, end, case.catchup, timedelta(days=40), grace, 1000),
                case.delay,
            ),
        )
        _agree(all(watermark < fire <= end for fire in planned.fires), "a fire is not of the plan")
        _agree(watermark <= planned.watermark <= max(watermark, end), "the watermark jumps")
        _agree(bool(planned.fires) or planned.watermark == max(watermark, end), "nothing moves")
        _agree(planned.next_fire is None or planned.next_fire > planned.watermark, "next fire")

    def _measured(self, what: str, evaluate: Callable[[], _Answer]) -> _Answer:
        steps, begin = spent(), thread_time()
        try:
            return evaluate()
        finally:
            self.costs.append(Cost(what, spent() - steps, thread_time() - begin))


def _agree(is_true: bool, text: str) -> None:
    if not is_true:
        raise Contradiction(text)


def shown(case: Case) -> str:
    """A case on one line, to be copied."""
    calendars = {name: content for name, content in case.calendars if name in case.spec}
    when: datetime = case.now
    return f"{case.spec!r} in {case.timezone}, {case.dst}, {calendars}, {when}, late {case.late}"
