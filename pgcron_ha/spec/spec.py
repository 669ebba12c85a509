"""``schedule.spec``: one text, one line for each rule; a schedule fires when any line does.

A line is one of these; an instant is ISO 8601, as wall time of the schedule's zone unless an offset
is written:

- a cron expression (`pgcron_ha.spec.cron.expression`);
- an interval, ``every <duration> [from <instant>]``: ``every 90m``, ``every 1h30m from
  2026-01-01T00:10Z``. It counts real time from its instant (which needs an offset; without one from
  1970-01-01T00:00Z), before and after it, whatever the schedule's zone;
- of a cron expression each nth, ``every 2nd of 0 9 * * mon [from <instant>]``, or one of
  ``@hourly~``, ``@daily~``, ``@weekly~``, ``@monthly~``, ``@yearly~``, whose minute, hour and day
  are the schedule's own (`pgcron_ha.spec.lines`);
- one instant, ``at 2026-12-24T18:00``;
- ``on asset sales and stock``, alone: no time fires it, but updates of all these assets;
- a recurrence rule, ``rrule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9`` (`pgcron_ha.spec.recurrence`);
- ``not`` and what is left out of all of them: dates (``not 2026-12-24..2027-01-01,2027-05-01``),
  the minutes that a cron expression names (``not * * * * sat,sun``), an instant
  (``not at 2026-12-24T18:00``);
- ``not in`` and ``only in``, and a calendar's name: its days are left out, or all others; then, if
  fires move instead, ``, move next`` or ``, move previous`` (`pgcron_ha.spec.calendars.shift`);
- ``from <instant>`` and ``until <instant>``: nothing fires before or after.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from heapq import merge
from itertools import islice
from typing import Any, Protocol

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.bounds import A_SECOND, AN_INSTANT, EARLIEST, LATEST, last_before
from pgcron_ha.spec.budget import MOST_STEPS, search, spend, too_many_steps
from pgcron_ha.spec.calendars.calendar import Calendars, read_calendars, unknown_calendar
from pgcron_ha.spec.calendars.shift import CalendarExclusion, CalendarUse, Moves
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.exclusions import Exclusion
from pgcron_ha.spec.lines import EXAMPLE_SEED, EXAMPLES, Bound, Line, read_line
from pgcron_ha.spec.rules import AssetRule, FireRule, WallRule, fires_of
from pgcron_ha.spec.zones import load_zone

# More rules than this belong into several schedules; each costs a search at every fire.
MOST_LINES = 32
MOST_CHARACTERS = 4096
CACHED_SPECS = 4096
# A search backwards or a count may cost `SEARCHES_BACK` searches, and a count one more for each
# `COUNTED_BY_A_SEARCH` fires.
SEARCHES_BACK = 3
COUNTED_BY_A_SEARCH = 1000
# Left-out fires of a rule that are skipped before other rules, which may fire earlier, are tried.
_FEW_LEFT_OUT = 50


@dataclass(frozen=True)
class Spec:
    """A valid spec in its zone and under its DST policy; equal when it fires by the same rules.

    ``canonical`` is sorted and without duplicates, and reads back to the same spec. All methods
    take and give aware datetimes; results are UTC, whole seconds. Safe to share between threads.
    """

    canonical: str
    timezone: str
    dst: DstPolicy
    notes: tuple[str, ...] = field(compare=False)
    rules: tuple[FireRule, ...] = field(compare=False, repr=False)
    exclusions: tuple[Exclusion, ...] = field(compare=False, repr=False, default=())
    first: datetime = field(compare=False, default=EARLIEST)
    """Nothing fires earlier."""
    last: datetime = field(compare=False, default=LATEST)
    """Nothing fires later."""
    seed: str | None = None
    """What its spread macros are chosen by; None if it has none."""
    calendars: Calendars = ()
    """What the calendars that it names contained."""
    moves: Moves | None = field(compare=False, repr=False, default=None)

    @property
    def assets(self) -> tuple[str, ...]:
        """Whose updates fire it; none: times do."""
        rule = self.rules[0]
        return rule.assets if isinstance(rule, AssetRule) else ()

    def next(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``, or None: never again.

        Raises `InvalidSpec` when the search takes too many steps (`pgcron_ha.spec.budget`).
        """
        with search():
            return self._next_until(max(after, self.first - A_SECOND), self.last)

    def previous(self, before: datetime) -> datetime | None:
        """The last fire earlier than ``before``, or None: never before. Raises as `next`."""
        before = min(before, self.last + AN_INSTANT)
        with search(times=SEARCHES_BACK):
            fire = last_before(self._next_until, before)
        return None if fire is None or fire < self.first else fire

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first ``limit`` fires with after < fire <= until, ascending, each once."""
        return list(islice(self.fires(after, until), limit))

    def fires(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """All fires with after < fire <= until, ascending, each once. Raises as `next`."""
        if self.exclusions or self.moves is not None or len(self.rules) == 1:
            fire = self.next(after)
            while fire is not None and fire <= until:
                yield fire
                fire = self.next(fire)
            return
        last, until = None, min(until, self.last)
        after = max(after, self.first - A_SECOND)
        for fire in merge(*(fires_of(rule, after, until) for rule in self.rules)):
            if fire != last:
                yield fire
            last = fire

    def count(self, after: datetime, until: datetime, most: int) -> int:
        """How many fires with after < fire <= until: exact up to ``most``, else more. Raises
        `TooManySteps`.
        """
        after, until = max(after, self.first - A_SECOND), min(until, self.last)
        with search(times=SEARCHES_BACK + most // COUNTED_BY_A_SEARCH):
            if self.moves is None:
                if len(self.rules) == 1:
                    return self._count_of(self.rules[0], after, until, most)
                if any(self._count_of(rule, after, until, most) > most for rule in self.rules):
                    return most + 1
            return len(self.between(after, until, most + 1))

    def _next_until(self, after: datetime, until: datetime) -> datetime | None:
        if after >= until:
            return None
        if self.moves is not None:
            return self.moves.next_until(after, until)
        if len(self.rules) == 1 and not self.exclusions:
            return self.rules[0].next(after, until)
        return self._first_left(self.rules, after, until)

    def _first_left(
        self, rules: Sequence[FireRule], after: datetime, until: datetime
    ) -> datetime | None:
        """The first fire of any of the rules in (after, until] that isn't left out. A rule is
        searched no further than the first fire of another one, so a rule whose fires are all left
        out costs little if another one fires.
        """
        first: datetime | None = None
        searches = [(rule, after) for rule in rules]
        for most in (_FEW_LEFT_OUT, MOST_STEPS):
            unfinished: list[tuple[FireRule, datetime]] = []
            for rule, since in searches:
                fire, reached = self._search(rule, since, until if first is None else first, most)
                first = first if fire is None else fire
                if reached is not None:
                    unfinished.append((rule, reached))
            searches = [one for one in unfinished if first is None or one[1] < first]
            if not searches:
                return first
        raise too_many_steps()

    def _search(
        self, rule: FireRule, after: datetime, until: datetime, most: int
    ) -> tuple[datetime | None, datetime | None]:
        """The rule's first fire that isn't left out, in (after, until]; or how far there is none,
        when ``most`` are left out.
        """
        for _ in range(most):
            fire = rule.next(after, until)
            if fire is None:
                return None, None
            spend(len(self.exclusions))
            ends = (exclusion.end(fire, rule) for exclusion in self.exclusions)
            end = max((one for one in ends if one is not None), default=None)
            if end is None:
                return fire, None
            if end >= LATEST:
                return None, None
            after = end - AN_INSTANT
        return None, after

    def _count_of(self, rule: FireRule, after: datetime, until: datetime, most: int) -> int:
        """As `count`, stretch by stretch of what isn't left out: a long one costs little."""
        if not self.exclusions:
            return rule.count(after, until, most)
        total = 0
        while total <= most and (fire := self._first_left((rule,), after, until)) is not None:
            begin = min(exclusion.begin(fire) for exclusion in self.exclusions)
            end = min(begin - AN_INSTANT, until)
            total += rule.count(fire - AN_INSTANT, end, most)
            after = end
        return total


def parse_spec(
    text: str,
    timezone: str = "UTC",
    dst: DstPolicy = DstPolicy.VIXIE,
    seed: str | None = None,
    calendars: Calendars = (),
) -> Spec:
    """Read a spec; raises `InvalidSpec` (with the line's number if there are several),
    `UnknownZone`, or `InvalidCalendar`. Blank lines are nothing.

    ``seed`` is the uuid of the schedule, by which spread macros such as ``@daily~`` choose their
    minute; without one they are refused. Specs without such macros are shared by all seeds.
    ``calendars`` has those that it names, and those that they name.
    """
    with search():
        return read_spec(text, timezone, dst, seed if "~" in text else None, calendars)


@lru_cache(maxsize=CACHED_SPECS)
def read_spec(
    text: str, timezone: str, dst: DstPolicy, seed: str | None, calendars: Calendars
) -> Spec:
    """As `parse_spec`, which is what others call; a seed that changes nothing fills the cache."""
    lines = _read(text, timezone, dst, seed)
    _judge(lines)
    once = {line.canonical: line for line in lines}
    lines = [once[canonical] for canonical in sorted(once)]
    rules = [line for line in lines if isinstance(line, FireRule)]
    uses = [line for line in lines if isinstance(line, CalendarUse)]
    known = read_calendars(calendars) if uses else {}
    for use in uses:
        if use.name not in known:
            raise unknown_calendar(use.name, dict(calendars))
    days = [CalendarExclusion(use.canonical, timezone, use, known[use.name]) for use in uses]
    exclusions = [line for line in lines if isinstance(line, Exclusion)]
    notes = [note for rule in rules if isinstance(rule, WallRule) for note in rule.times.notes]
    bounds = {line.name: line for line in lines if isinstance(line, Bound)}
    ordered: list[Line] = [*bounds.values(), *rules, *exclusions, *uses]
    spec = Spec(
        canonical="\n".join(line.canonical for line in ordered),
        timezone=timezone,
        dst=dst,
        notes=tuple(dict.fromkeys(notes)),
        rules=tuple(rules),
        exclusions=(*exclusions, *(line for line in days if line.use.move is None)),
        first=bounds["from"].instant if "from" in bounds else EARLIEST,
        last=bounds["until"].instant if "until" in bounds else LATEST,
        seed=seed,
        calendars=calendars if uses else (),
    )
    moving = [line for line in days if line.use.move is not None]
    if moving:
        # Of a spec that is the same but for the moves.
        moves = Moves(moving, spec.rules, spec.exclusions, spec._next_until)
        spec = replace(spec, moves=moves)
    if len(ordered) > len(rules) and spec.next(spec.first - A_SECOND) is None:
        raise InvalidSpec(
            "the spec never fires",
            "nothing is left of its rules between its bounds",
            "write fewer exclusions, or leave that rule out; `pgcron-ha next` shows what is left",
        )
    return spec


def check_spec(
    text: str, timezone: str = "UTC", dst: DstPolicy = DstPolicy.VIXIE, seed: str | None = None
) -> None:
    """Judge a spec without its calendars; raises as `parse_spec`. Whether calendars exist, and
    leave anything, is not known here.
    """
    with search():
        lines = _read(text, timezone, dst, seed)
        _judge(lines)
        if not any(isinstance(line, CalendarUse) for line in lines):
            parse_spec(text, timezone, dst, seed)


def calendar_names(text: str) -> tuple[str, ...]:
    """The calendars that a spec names, each once; raises `InvalidSpec`."""
    with search():
        lines = _read(text, "UTC", DstPolicy.VIXIE, EXAMPLE_SEED)
    return tuple(dict.fromkeys(line.name for line in lines if isinstance(line, CalendarUse)))


def _read(text: str, timezone: str, dst: DstPolicy, seed: str | None) -> list[Line]:
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
            f"it has 1 to {MOST_LINES} lines, each a rule, an exclusion or a bound",
            EXAMPLES,
        )
    read: list[Line] = []
    for number, line in written.items():
        try:
            read.append(read_line(line, timezone, dst, seed))
        except InvalidSpec as error:
            if len(written) == 1:
                raise
            raise error.about(f"line {number}") from error
    return read


def _judge(lines: Sequence[Line]) -> None:
    """The lines together, whatever their calendars contain."""
    bounds = Counter(line.name for line in lines if isinstance(line, Bound))
    for name, count in sorted(bounds.items()):
        if count > 1:
            raise InvalidSpec(
                f"the spec has {count} lines that begin with {name}",
                "a schedule begins once and ends once",
                f"write one {name} line, and several schedules for several times",
            )
    if len(lines) > 1 and any(isinstance(line, AssetRule) for line in lines):
        raise InvalidSpec(
            "the spec has a line on assets and another one",
            "what updates of assets fire, no time fires or leaves out",
            "name all its assets in one line, and make another schedule for times",
        )
    if len({line.move for line in lines if isinstance(line, CalendarUse)} - {None}) > 1:
        raise InvalidSpec(
            "the spec moves to the next and to the previous day",
            "all its lines that move do so in one direction",
            "write `move next` in all of them, or `move previous`",
        )
    if not any(isinstance(line, FireRule) for line in lines):
        raise InvalidSpec(
            "the spec has no line that fires", "exclusions and bounds only take away", EXAMPLES
        )


class ScheduleRow(Protocol):
    """A record or mapping that says ``spec``, ``timezone``, ``dst``, ``uuid`` and ``calendars``."""

    def __getitem__(self, key: str, /) -> Any:
        """The value of a column."""


def spec_of(row: ScheduleRow) -> Spec:
    """Raises as `parse_spec`, and `InvalidInput` for a policy that another version knows."""
    dst = DstPolicy.parse(row["dst"])
    calendars = calendars_in(row["calendars"])
    return parse_spec(row["spec"], row["timezone"], dst, str(row["uuid"]), calendars)


def calendars_in(column: Any) -> Calendars:
    """The value of the column from any driver: None, JSON text, or a mapping. Raises `InvalidSpec`
    for anything else.
    """
    try:
        contents = json.loads(column) if isinstance(column, str) else column
        calendars = tuple(sorted((contents or {}).items()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        calendars = ((column, None),)
    if not all(isinstance(text, str) for calendar in calendars for text in calendar):
        raise InvalidSpec(
            "the schedule's copy of its calendars can't be read",
            "it is an object that has the text of each calendar by its name",
            "put the calendars, or the schedule, again",
        )
    return calendars
