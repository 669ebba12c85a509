"""Why a spec does not fire at an instant that its rules name."""

from __future__ import annotations

from datetime import datetime, timedelta

from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.budget import search
from pgcron_ha.spec.calendars.lines import CalendarExclusion, day_of
from pgcron_ha.spec.calendars.shift import MOST_DAYS_MOVED, Moves
from pgcron_ha.spec.spec import SEARCHES_BACK, Spec

_INSTANT = timedelta(microseconds=1)


def why_not(spec: Spec, instant: datetime) -> str | None:
    """What takes this instant from the spec's rules, in a sentence without its stop; None if they
    don't name it, or if the spec fires then all the same.

    For example ``left out by calendar holidays: 2026-12-25 Christmas Day``.
    """
    try:
        with search(times=SEARCHES_BACK):
            before = instant - _INSTANT
            rules = [rule for rule in spec.rules if rule.next(before, instant) == instant]
            if not rules or spec.next(before) == instant:
                return None
            for line in spec.exclusions:
                if all(line.end(instant, rule) is not None for rule in rules):
                    if isinstance(line, CalendarExclusion):
                        return f"left out by {line.why(day_of(spec.timezone, instant))}"
                    return f'left out by "{line.canonical}"'
            moved = None if spec.moves is None else _moved(spec.moves, instant)
    except PgcronError:
        return None
    if moved is not None:
        return moved
    if instant < spec.first:
        return f"the schedule begins later, at {spec.first:%Y-%m-%dT%H:%M:%SZ}"
    if instant > spec.last:
        return f"the schedule ended at {spec.last:%Y-%m-%dT%H:%M:%SZ}"
    return None


def _moved(moves: Moves, instant: datetime) -> str | None:
    day = day_of(moves.timezone, instant)
    line = moves.takes(day)
    if line is None:
        return None
    destination = moves.destination(instant)
    if destination is None:
        return f"left out by {line.why(day)} (no day within {MOST_DAYS_MOVED} takes it)"
    return f"moved to {destination:%Y-%m-%dT%H:%M:%SZ} by {line.why(day)}"
