"""One line of a spec: what it is, by its first word.

The macros ``@hourly~``, ``@daily~`` and so on are for schedules that need no exact minute. When in
its period such a schedule fires is a hash of the schedule's seed (its uuid): the same on every
node, for ever, and another one for the next schedule. All macros of one seed take the same minute,
and all but ``@hourly~`` the same hour.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple, NoReturn

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec import exclusions, recurrence
from pgcron_ha.spec.calendars.calendar import NAME
from pgcron_ha.spec.calendars.shift import CalendarUse
from pgcron_ha.spec.cron.expression import START, CronExpression, nth_of, parse_cron
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.instants import read_instant
from pgcron_ha.spec.rules import EPOCH, AssetRule, FireRule, InstantRule, IntervalRule, WallRule
from pgcron_ha.spec.text import duration_text, ordinal
from pgcron_ha.spec.zones import wall_time

EXAMPLE_SEED = "00000000-0000-0000-0000-000000000000"
"""For judging a spec before its schedule exists: whether it is readable depends on no seed."""

_MACROS = {
    "@hourly~": "{minute} * * * *",
    "@daily~": "{minute} {hour} * * *",
    "@weekly~": "{minute} {hour} * * {weekday}",
    "@monthly~": "{minute} {hour} {day} * *",
    "@yearly~": "{minute} {hour} {day} {month} *",
}
_DAYS = 28  # every month has them, and every weekday comes as often


def _spread_fields(macro: str, seed: str | None) -> str:
    """The cron expression that the macro is for this seed; raises `InvalidSpec` without one."""
    if seed is None:
        raise InvalidSpec(
            f'"{macro}" fires at another time for each schedule',
            "its minute, hour and day are a hash of the schedule's uuid",
            "name its uuid: `pgcron-ha next --seed UUID`; `pgcron-ha schedules show` has its fires",
        )
    rest = int.from_bytes(hashlib.sha256(seed.lower().encode()).digest()[:8], "big")
    rest, minute = divmod(rest, 60)
    rest, hour = divmod(rest, 24)
    rest, day = divmod(rest, _DAYS)
    month, weekday = rest % 12 + 1, day % 7
    return _MACROS[macro].format(
        minute=minute, hour=hour, weekday=weekday, day=day + 1, month=month
    )


MOST_DAYS = 36_525  # of an interval
MOST_CHARACTERS = 256
EXAMPLES = 'for example "0 9 * * mon-fri" or "every 90m"'
_INSTANT = 'for example "{0} 2026-12-24T18:00" or "{0} 2026-12-24T17:00Z"'
_NTH = 'for example "every 2nd of 0 9 * * mon from 2026-01-05T09:00"'

ASSET = re.compile(r"(?!and(?: |$))[a-z0-9_][a-z0-9_.:/+@=-]{0,99}", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Bound:
    """A ``from`` or ``until`` line: the first or the last instant at which a spec may fire."""

    canonical: str
    name: str
    instant: datetime


class _Schedule(NamedTuple):
    """What a line is read for."""

    timezone: str
    dst: DstPolicy
    seed: str | None


Line = FireRule | exclusions.Exclusion | Bound | CalendarUse


def read_line(line: str, timezone: str, dst: DstPolicy, seed: str | None = None) -> Line:
    """Read a line that is not blank; raises `InvalidSpec`. The seed is that of spread macros."""
    if len(line) > MOST_CHARACTERS:
        raise InvalidSpec(
            f"the line has {len(line)} characters",
            f"a line has at most {MOST_CHARACTERS}",
            "write several lines, and ranges and steps (0-30/5) instead of long lists",
        )
    text = " ".join(line.split())
    kind = text.partition(" ")[0].lower()
    if kind not in _KINDS:
        return WallRule(*_cron(line, seed), timezone, dst)
    for pattern, read in _FORMS:
        match = re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE)
        if match is not None:
            return read(match, _Schedule(timezone, dst, seed))
    raise _refusal(text, kind)


def _refusal(text: str, kind: str) -> InvalidSpec:
    """What is wrong with a line that has no form of its kind: the part, if one is known."""
    written, example = _KINDS[kind]
    _, part, third = [*text.split(), "", ""][:3]
    if kind == "every" and part and not _ORDINAL.fullmatch(part):
        if third.lower() == "of":
            form = "it is written: every <n>th of <cron expression> [from <instant>]"
            return InvalidSpec(f'"{part[:40]}" does not say which ones', form, _NTH)
        if not _LENGTH.fullmatch(part):
            return InvalidSpec(f'"{part[:40]}" is not a duration', _DURATION, example)
    fact = _WRONG.get(kind, f"is not a valid `{kind}` line")
    return InvalidSpec(f'"{text[:60]}" {fact}', f"it is written: {written}", example)


def _cron(text: str, seed: str | None) -> tuple[str, CronExpression]:
    """The canonical text, and what it stands for."""
    macro = text.strip(" \t").lower()
    if macro not in _MACROS:
        expression = parse_cron(text)
        return expression.canonical, expression
    fields = _spread_fields(macro, seed)
    return macro, replace(parse_cron(fields), notes=(f'"{macro}" is {fields} here',))


def _nth(match: re.Match[str], of: _Schedule) -> WallRule:
    anchor = START
    if match[3] is not None:
        anchor = wall_time(of.timezone, read_instant(match[3], of.timezone, _NTH).instant)
    named, expression = _cron(match[2], of.seed)
    begin = "" if anchor == START else f" from {anchor:%Y-%m-%dT%H:%M:%S}"
    step = int(match[1])
    text = f"every {ordinal(step)} of {named}{begin}"
    return WallRule(text, nth_of(expression, step, anchor), of.timezone, of.dst)


def _interval(match: re.Match[str], of: _Schedule) -> IntervalRule:
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:5])
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not 1 <= total <= MOST_DAYS * 86_400:
        raise InvalidSpec(
            f'the interval "{match[1][:40]}" is too {"long" if total else "short"}',
            f"an interval is 1 second to {MOST_DAYS} days long",
            'for example "every 45s"',
        )
    period, anchor = timedelta(seconds=total), EPOCH
    if match[6] is not None:
        example = 'for example "from 2026-01-01T00:10Z" or "from 2026-01-01T01:10:00+01:00"'
        anchor = read_instant(match[6], None, example).instant
    begin = "" if anchor == EPOCH else f" from {anchor:%Y-%m-%dT%H:%M:%SZ}"
    return IntervalRule(f"every {duration_text(period)}{begin}", period, anchor)


def _spelled(match: re.Match[str], of: _Schedule) -> NoReturn:
    """``every 5 minutes``, ``every hour``."""
    written = f"every {match[1] or 1}{match[2].lower()}{match[3] or ''}"
    raise InvalidSpec(
        f'"{match[0][:60]}" is not how an interval is written', _DURATION, f'write "{written}"'
    )


def _instant(match: re.Match[str], of: _Schedule) -> Line:
    kind = match[1].lower()
    written = read_instant(match[2], of.timezone, _INSTANT.format(kind))
    canonical = f"{kind} {written.canonical}"
    if kind == "at":
        return InstantRule(canonical, written.instant)
    if kind == "not at":
        return exclusions.InstantExclusion(canonical, written.instant)
    return Bound(canonical, kind, written.instant)


def _calendar(match: re.Match[str], of: _Schedule) -> CalendarUse:
    kind, name, move = match[1].lower(), match[2], match[3] and match[3].lower()
    canonical = f"{kind} in {name}" + (f", move {move}" if move else "")
    return CalendarUse(canonical, name, kind == "only", move)


def _assets(match: re.Match[str], of: _Schedule) -> AssetRule:
    named = tuple(sorted(set(re.split(" and ", match[1], flags=re.IGNORECASE))))
    return AssetRule(f"on asset {' and '.join(named)}", named)


_DURATION = "a duration has days, hours, minutes, seconds in this order, whole and not negative"
_ORDINAL = re.compile(r"(\d{1,6})(?:st|nd|rd|th)", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(
    r"(?=\d)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII | re.IGNORECASE
)
_NO_WORD = "(?!(?:in|at|every|rrule|not|from|until)(?: |$))"
_WRONG = {"not": "is not an exclusion", "only": "does not name a calendar", "on": "names no assets"}
_KINDS = {
    "every": (
        "every <duration> [from <instant>], or every <n>th of <cron expression> [from <instant>];"
        f" {_DURATION}",
        'for example "every 90m", "every 1h30m from 2026-01-01T00:10Z", "every 2nd of 0 9 * * mon"',
    ),
    "not": (
        "not and dates, a cron expression, at and an instant, or in and the name of a calendar;"
        " after that, if its fires shall move, `, move next` or `, move previous`",
        f'{exclusions.EXAMPLE}, "not in holidays, move next"',
    ),
    "only": (
        "only in and the name of a calendar; then, if its fires shall move, `, move next` or"
        " `, move previous`",
        'for example "only in business-days, move next"',
    ),
    "rrule": ("rrule <parts> [from <instant>]", recurrence.EXAMPLE),
    **{kind: (f"{kind} <instant>", _INSTANT.format(kind)) for kind in ("at", "from", "until")},
    "on": (
        "on asset <name> and <name> …; a name has 1 to 100 letters, digits, and of _.:/+@=-",
        'for example "on asset sales and stock"',
    ),
}
_FORMS: tuple[tuple[str, Callable[[re.Match[str], _Schedule], Line]], ...] = (
    (rf"every {_ORDINAL.pattern} of (.+?)(?: from (\S+))?", _nth),
    (rf"every ({_LENGTH.pattern})(?: from (\S+))?", _interval),
    (
        r"every (\d{1,9})? ?([dhms])(?:ays?|(?:ou)?rs?|in(?:ute)?s?|ec(?:ond)?s?)?( from \S+)?",
        _spelled,
    ),
    (r"(at|not at|from|until) (\S+)", _instant),
    (rf"(not|only) in ({NAME.pattern})(?: ?, ?(?:skip|move (next|previous)))?", _calendar),
    (rf"not {_NO_WORD}([^@]\S*)", lambda match, of: exclusions.read_dates(match[1], of.timezone)),
    (
        rf"not ({_NO_WORD}.+)",
        lambda match, of: exclusions.read_cron_exclusion(match[1], of.timezone),
    ),
    (
        r"rrule (\S+)(?: from (\S+))?",
        lambda match, of: recurrence.read_recurrence(match[1], match[2], of.timezone, of.dst),
    ),
    (rf"on asset ({ASSET.pattern}(?: and {ASSET.pattern})*)", _assets),
)
