"""The next fires of a spec as people read them: local time, offset, and what the clock does; and
why a spec does not fire at an instant that its rules name.

Near a change of the zone's clock a fire is marked: wall times that are skipped (a gap) run late or
are lost, repeated ones (a fold) fire on one pass or on both, by the spec's DST policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.bounds import A_SECOND, AN_INSTANT, naive_utc
from pgcron_ha.spec.budget import MOST_STEPS, search, spent
from pgcron_ha.spec.calendars.shift import MOST_DAYS_MOVED, CalendarExclusion, Moves, day_of
from pgcron_ha.spec.cron.expression import WallTimes
from pgcron_ha.spec.cron.fires import is_run_late
from pgcron_ha.spec.rules import WallRule
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.spec.spec import SEARCHES_BACK, Spec
from pgcron_ha.spec.text import clock
from pgcron_ha.spec.zones import Change, first_change, instants_of, load_zone, wall_time

# A yearly fire that a gap removed is noted at the next year's; nothing older is looked at.
LOOK_BACK: Final = timedelta(days=400)
MOST_STEPS_OF_PREVIEW: Final = 2 * MOST_STEPS


@dataclass(frozen=True)
class PreviewFire:
    """One fire to come."""

    fire_at: datetime
    """UTC."""
    local: datetime
    """Aware, in the spec's zone."""
    note: str | None
    """What a change of the clock did to it or to those before it."""

    @property
    def local_text(self) -> str:
        """``Fri 2026-03-27 09:00:00 +0100``."""
        return f"{self.local:%a %Y-%m-%d %H:%M:%S %z}"

    @property
    def utc_text(self) -> str:
        """``2026-03-27T08:00:00Z``."""
        return f"{self.fire_at:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class Preview:
    """What a spec, with its policies, will do."""

    sentence: str
    """In English."""
    notes: tuple[str, ...]
    """Of the spec, for its author."""
    timezone: str
    fires: tuple[PreviewFire, ...]
    """Ascending."""
    is_over: bool
    """Whether it never fires after them."""


def preview(
    spec: Spec, after: datetime, count: int, policies: Mapping[str, Any] | None = None
) -> Preview:
    """The first ``count`` fires later than ``after``, fewer when they take too long to find.
    Raises as `Spec.next`.

    ``policies`` as `pgcron_ha.spec.sentences.sentence` takes them.
    """
    fires: list[PreviewFire] = []
    begin = spent()
    last, fire = after, spec.next(after)
    while fire is not None and len(fires) < count and spent() - begin <= MOST_STEPS_OF_PREVIEW:
        fires.append(marked(spec, fire, last))
        last, fire = fire, spec.next(fire)
    is_over = fire is None and not spec.assets
    return Preview(sentence(spec, policies), spec.notes, spec.timezone, tuple(fires), is_over)


def marked(spec: Spec, fire: datetime, last: datetime | None = None) -> PreviewFire:
    """A fire of the spec with its note; ``last`` is the fire before it, if that is known."""
    notes = [*_gap_notes(spec, fire, last), *_fold_notes(spec, fire)]
    local = fire.astimezone(load_zone(spec.timezone))
    return PreviewFire(fire.astimezone(UTC), local, "; ".join(notes) or None)


def _gap_notes(spec: Spec, fire: datetime, last: datetime | None) -> Iterator[str]:
    """Of wall times that were skipped between the last fire and this one."""
    at = naive_utc(fire)
    # Without it only a change at the fire is known to be new.
    since = at - A_SECOND if last is None else max(naive_utc(last), at - LOOK_BACK)
    change = first_change(spec.timezone, since, at)
    while change is not None:
        yield from dict.fromkeys(_skipped(spec, change, is_fire=change.at == at))
        change = first_change(spec.timezone, change.at, at)


def _skipped(spec: Spec, change: Change, is_fire: bool) -> Iterator[str]:
    end = change.at + change.after
    for named in _named_times(spec):
        wall = named.wall_after(change.at + change.before - A_SECOND, end)
        if wall is None or wall >= end:
            continue
        fact = f"{clock(wall)} does not exist on {wall:%Y-%m-%d} in {spec.timezone}"
        if named.wildcard or not is_run_late(change, spec.dst):
            yield f"{fact}: no fire"
        elif is_fire:
            yield f"{fact}: fires at {clock(end)}"


def _fold_notes(spec: Spec, fire: datetime) -> Iterator[str]:
    wall = wall_time(spec.timezone, fire)
    passes = [each.replace(tzinfo=UTC) for each in instants_of(spec.timezone, wall)]
    if len(passes) < 2:
        return
    fact = f"{clock(wall)} occurs twice on {wall:%Y-%m-%d} in {spec.timezone}"
    if fire == passes[1]:
        yield f"{fact}: second pass"
    elif _names(spec, wall) and spec.next(passes[1] - A_SECOND) != passes[1]:
        yield f"{fact}: first pass, the second is left out"
    else:
        yield f"{fact}: first pass"


def _names(spec: Spec, wall: datetime) -> bool:
    return any(named.wall_after(wall - A_SECOND, wall) == wall for named in _named_times(spec))


def _named_times(spec: Spec) -> Iterator[WallTimes]:
    """Of the rules that don't count real time."""
    return (rule.times for rule in spec.rules if isinstance(rule, WallRule))


def why_not(spec: Spec, instant: datetime) -> str | None:
    """What takes this instant from the spec's rules, in a sentence without its stop; None if they
    don't name it, or if the spec fires then all the same.

    For example ``left out by calendar holidays: 2026-12-25 Christmas Day``.
    """
    if spec.assets:
        return "it runs when its assets were updated, and at no set times"
    try:
        with search(times=SEARCHES_BACK):
            before = instant - AN_INSTANT
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
