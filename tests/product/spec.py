"""Parts of ``pgcron_ha.spec`` that tests look at by themselves."""

from __future__ import annotations

from datetime import datetime

from pgcron_ha.spec import spec, zones
from pgcron_ha.spec.bounds import EARLIEST, LATEST, last_before
from pgcron_ha.spec.budget import FEW_STEPS, MOST_STEPS, TakesLong, quickly, spent
from pgcron_ha.spec.calendars.calendar import Calendar, Calendars, read_calendars
from pgcron_ha.spec.cron import expression
from pgcron_ha.spec.cron.expression import MACROS, CronExpression, nth_of, parse_cron
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.lines import EXAMPLE_SEED
from pgcron_ha.spec.preview import Preview, preview, why_not
from pgcron_ha.spec.rules import FireRule, WallRule
from pgcron_ha.spec.sentences import MOST_CHARACTERS as SENTENCES_MOST_CHARACTERS
from pgcron_ha.spec.sentences import policy_words, sentence
from pgcron_ha.spec.spec import MOST_CHARACTERS as SPEC_MOST_CHARACTERS
from pgcron_ha.spec.spec import (
    MOST_LINES,
    Spec,
    calendar_names,
    check_spec,
    parse_spec,
    read_spec,
    spec_of,
)
from pgcron_ha.spec.text import duration_text, in_bytes
from pgcron_ha.spec.year_days import bit
from pgcron_ha.spec.zones import TZDATA, instant_at, load_zone, wall_clock, zone_names

__all__ = [
    "EARLIEST",
    "EXAMPLE_SEED",
    "FEW_STEPS",
    "LATEST",
    "MACROS",
    "MOST_LINES",
    "MOST_STEPS",
    "SENTENCES_MOST_CHARACTERS",
    "SPEC_MOST_CHARACTERS",
    "TZDATA",
    "Calendar",
    "Calendars",
    "DstPolicy",
    "FireRule",
    "Preview",
    "Spec",
    "TakesLong",
    "bit",
    "calendar_names",
    "check_spec",
    "duration_text",
    "expression",
    "fires_between",
    "in_bytes",
    "instant_at",
    "load_zone",
    "next_fire",
    "nth_of",
    "parse_cron",
    "parse_spec",
    "policy_words",
    "preview",
    "previous_fire",
    "quickly",
    "read_calendars",
    "read_spec",
    "sentence",
    "spec",
    "spec_of",
    "spent",
    "wall_clock",
    "why_not",
    "zone_names",
    "zones",
]


def next_fire(
    expression: CronExpression, zone: str, after: datetime, dst: DstPolicy = DstPolicy.VIXIE
) -> datetime | None:
    """The first fire of a cron line later than ``after``, or None."""
    return WallRule(expression.canonical, expression, zone, dst).next(after, LATEST)


def previous_fire(
    expression: CronExpression, zone: str, before: datetime, dst: DstPolicy = DstPolicy.VIXIE
) -> datetime | None:
    """The last fire of a cron line earlier than ``before``, or None."""
    return last_before(WallRule(expression.canonical, expression, zone, dst).next, before)


def fires_between(
    expression: CronExpression,
    zone: str,
    after: datetime,
    until: datetime,
    dst: DstPolicy,
    limit: int,
) -> list[datetime]:
    """The first ``limit`` fires of a cron line with after < fire <= until."""
    fires: list[datetime] = []
    fire = next_fire(expression, zone, after, dst)
    while fire is not None and fire <= until and len(fires) < limit:
        fires.append(fire)
        fire = next_fire(expression, zone, fire, dst)
    return fires
