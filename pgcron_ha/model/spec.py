"""``schedule.spec``: one text, one line for each rule; a schedule fires when any line does.

A line is a cron expression (`pgcron_ha.model.cron_expression`) or an interval,
``every <duration> [from <instant>]``: ``every 90m``, ``every 1h30m from 2026-01-01T00:10Z``. An
interval counts real time from its instant (without one from 1970-01-01T00:00Z), before and after
it, whatever the schedule's zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.model.cron import (
    EARLIEST,
    LATEST,
    CronExpression,
    DstPolicy,
    count_fires,
    load_zone,
    next_fire,
    parse_cron,
    previous_fire,
)

# More rules than this belong into several schedules; each costs a search at every fire.
MOST_LINES = 32
MOST_CHARACTERS = 4096
SHORTEST_INTERVAL = timedelta(seconds=1)
LONGEST_INTERVAL = timedelta(days=36_525)
CACHED_SPECS = 4096

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)
_NOT_YET = ("not", "at", "rrule")
_EXAMPLES = 'for example "0 9 * * mon-fri" or "every 90m"'


class FireRule(Protocol):
    """One line of a spec: it fires at whole seconds, at the same ones whoever asks."""

    @property
    def canonical(self) -> str:
        """The line's text, the same for all spellings."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the person who wrote it."""

    def next(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``."""

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``."""

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""


@dataclass(frozen=True)
class CronRule:
    """A cron line in its zone."""

    expression: CronExpression
    timezone: str
    dst: DstPolicy

    @property
    def canonical(self) -> str:
        """The expression's canonical text."""
        return self.expression.canonical

    @property
    def notes(self) -> tuple[str, ...]:
        """The expression's notes."""
        return self.expression.notes

    def next(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``."""
        return next_fire(self.expression, self.timezone, after, self.dst)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``."""
        return previous_fire(self.expression, self.timezone, before, self.dst)

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""
        return count_fires(self.expression, self.timezone, after, until, self.dst, most)


@dataclass(frozen=True)
class IntervalRule:
    """Every multiple of ``period`` before and after ``anchor``."""

    period: timedelta
    anchor: datetime
    notes: tuple[str, ...] = ()

    @property
    def canonical(self) -> str:
        """``every 1h30m``, with ``from`` and the instant in UTC when it is not the epoch."""
        text = f"every {_duration_text(self.period)}"
        if self.anchor == EPOCH:
            return text
        return f"{text} from {self.anchor:%Y-%m-%dT%H:%M:%SZ}"

    def next(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``, or None beyond the calendar."""
        if after >= LATEST:
            return None
        count = (max(after, EARLIEST) - self.anchor) // self.period + 1
        return self._fire(count)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``, or None beyond the calendar."""
        if before <= EARLIEST:
            return None
        count = -((self.anchor - min(before, LATEST)) // self.period) - 1
        return self._fire(count)

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until, exact."""
        start, end = max(after, EARLIEST), min(until, LATEST)
        return max(0, (end - self.anchor) // self.period - (start - self.anchor) // self.period)

    def _fire(self, count: int) -> datetime | None:
        distance = count * self.period
        if not EARLIEST - self.anchor <= distance <= LATEST - self.anchor:
            return None
        return self.anchor + distance


@dataclass(frozen=True)
class Spec:
    """A valid spec in its zone and under its DST policy; equal when it fires by the same rules.

    ``canonical`` is sorted and without duplicates, and reads back to the same spec. All methods
    take and give aware datetimes; results are UTC, whole seconds. Safe to share between threads.
    """

    text: str = field(compare=False)
    canonical: str
    timezone: str
    dst: DstPolicy
    notes: tuple[str, ...] = field(compare=False)
    rules: tuple[FireRule, ...] = field(compare=False, repr=False)

    def next(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``, or None: never again."""
        if len(self.rules) == 1:
            return self.rules[0].next(after)
        fires = [fire for rule in self.rules if (fire := rule.next(after)) is not None]
        return min(fires, default=None)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``, or None: never before."""
        fires = [fire for rule in self.rules if (fire := rule.previous(before)) is not None]
        return max(fires, default=None)

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first ``limit`` fires with after < fire <= until, ascending, each once."""
        fires: list[datetime] = []
        fire = self.next(after)
        while fire is not None and fire <= until and len(fires) < limit:
            fires.append(fire)
            fire = self.next(fire)
        return fires

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more."""
        if len(self.rules) == 1:
            return self.rules[0].count(after, until, most)
        if max(rule.count(after, until, most) for rule in self.rules) > most:
            return most + 1
        return len(self.between(after, until, most + 1))


@lru_cache(maxsize=CACHED_SPECS)
def parse_spec(text: str, timezone: str = "UTC", dst: DstPolicy = DstPolicy.VIXIE) -> Spec:
    """Read a spec; raises `InvalidSpec` (with the line's number if there are several) or
    `UnknownZone`. Blank lines are nothing.
    """
    load_zone(timezone)
    if len(text) > MOST_CHARACTERS:
        raise InvalidSpec(
            f"the spec has {len(text)} characters",
            f"at most {MOST_CHARACTERS} are allowed",
            "split it into several schedules",
        )
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    written = {number: line for number, line in enumerate(lines, start=1) if line}
    if not 1 <= len(written) <= MOST_LINES:
        raise InvalidSpec(
            f"the spec has {len(written)} lines",
            f"it has 1 to {MOST_LINES} lines, each a cron expression or an interval",
            _EXAMPLES,
        )
    rules: dict[str, FireRule] = {}
    for number, line in written.items():
        rule = _numbered_rule(line, timezone, dst, number if len(written) > 1 else None)
        rules[rule.canonical] = rule
    ordered = [rules[canonical] for canonical in sorted(rules)]
    return Spec(
        text=text,
        canonical="\n".join(rule.canonical for rule in ordered),
        timezone=timezone,
        dst=dst,
        notes=tuple(dict.fromkeys(note for rule in ordered for note in rule.notes)),
        rules=tuple(ordered),
    )


def _numbered_rule(line: str, timezone: str, dst: DstPolicy, number: int | None) -> FireRule:
    try:
        return _rule(line, timezone, dst)
    except InvalidSpec as error:
        if number is None:
            raise
        raise InvalidSpec(f"line {number}: {error.message}", error.detail, error.hint) from error


def _rule(line: str, timezone: str, dst: DstPolicy) -> FireRule:
    words = line.split()
    kind = words[0].lower()
    if kind == "every":
        return _interval(words)
    if kind in _NOT_YET:
        raise InvalidSpec(
            f'this version does not know "{kind}" lines yet',
            "a line is a cron expression or an interval",
            _EXAMPLES,
        )
    return CronRule(parse_cron(line), timezone, dst)


def _interval(words: list[str]) -> IntervalRule:
    if len(words) == 2:
        return IntervalRule(_duration(words[1]), EPOCH)
    if len(words) == 4 and words[2].lower() == "from":
        return IntervalRule(_duration(words[1]), _instant(words[3]))
    raise InvalidSpec(
        "the interval is not complete" if len(words) < 4 else "the interval has words too many",
        "an interval is: every <duration> [from <instant>]",
        'for example "every 90m from 2026-01-01T00:10Z"',
    )


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text.lower())
    if match is None or not text:
        raise InvalidSpec(
            f'"{text[:40]}" is not a duration',
            "a duration has days, hours, minutes, seconds in this order, whole and not negative",
            'for example "every 90m", "every 1h30m", "every 45s", "every 2d"',
        )
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    shortest, longest = (
        bound // timedelta(seconds=1) for bound in (SHORTEST_INTERVAL, LONGEST_INTERVAL)
    )
    if not shortest <= total <= longest:
        raise InvalidSpec(
            f'the interval "{text[:40]}" is too {"short" if total < shortest else "long"}',
            f"an interval is 1 second to {LONGEST_INTERVAL.days} days long",
            'for example "every 45s"',
        )
    return timedelta(seconds=total)


def _instant(text: str) -> datetime:
    hint = 'for example "from 2026-01-01T00:10Z" or "from 2026-01-01T01:10:00+01:00"'
    refusal = InvalidSpec(
        f'"{text[:40]}" is not an instant',
        "an instant is an ISO 8601 date and time with its offset, in whole seconds",
        hint,
    )
    if not _INSTANT.fullmatch(text):
        raise refusal
    try:
        instant = datetime.fromisoformat(text.upper())
    except ValueError:  # a 13th month, a 61st minute
        raise refusal from None
    if not EARLIEST <= instant <= LATEST:
        raise InvalidSpec(
            f'"{text}" is outside the calendar', "instants are of the years 1900 to 9998", hint
        )
    return instant.astimezone(UTC)


def _duration_text(period: timedelta) -> str:
    hours, seconds = divmod(period.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = ((period.days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)
