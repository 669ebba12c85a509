"""One line of a spec: what it is, by its first word.

The macros ``@hourly~``, ``@daily~`` and so on are for schedules that need no exact minute. When in
its period such a schedule fires is a hash of the schedule's seed (its uuid): the same on every
node, for ever, and another one for the next schedule. All macros of one seed take the same minute,
and all but ``@hourly~`` the same hour.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.calendars.lines import CalendarUse, names_calendar, read_calendar_use
from pgcron_ha.spec.cron.expression import START, CronExpression, nth_of, parse_cron
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.exclusions import Exclusion, read_exclusion
from pgcron_ha.spec.instants import read_instant, words_from
from pgcron_ha.spec.recurrence import read_recurrence
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

ASSET = re.compile(r"(?!and$)[a-z0-9_][a-z0-9_.:/+@=-]{0,99}", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"(\d{1,6})(?:st|nd|rd|th)", re.ASCII)
_SPELLED = re.compile(
    r"(\d{1,9})? ?([dhms])(?:ays?|(?:ou)?rs?|in(?:ute)?s?|ec(?:ond)?s?)?", re.ASCII
)
_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


@dataclass(frozen=True)
class Bound:
    """A ``from`` or ``until`` line: the first or the last instant at which a spec may fire."""

    canonical: str
    name: str
    instant: datetime


def read_line(
    line: str, timezone: str, dst: DstPolicy, seed: str | None = None
) -> FireRule | Exclusion | Bound | CalendarUse:
    """Read a line that is not blank; raises `InvalidSpec`. The seed is that of spread macros."""
    words = line.split()
    kind = words[0].lower()
    if len(line) > MOST_CHARACTERS:
        raise InvalidSpec(
            f"the line has {len(line)} characters",
            f"a line has at most {MOST_CHARACTERS}",
            "write several lines, and ranges and steps (0-30/5) instead of long lists",
        )
    if kind == "every" and words[2:3] and words[2].lower() == "of":
        return _nth(words, timezone, dst, seed)
    if kind == "every":
        return _interval(words)
    if names_calendar(words):
        return read_calendar_use(words)
    if kind == "not":
        return read_exclusion(words, timezone)
    if kind == "rrule":
        return read_recurrence(words, timezone, dst)
    if kind in ("at", "from", "until"):
        return _instant_line(words, timezone)
    if kind == "on":
        return _on_assets(words)
    return WallRule(*_cron(line, seed), timezone, dst)


def _cron(text: str, seed: str | None) -> tuple[str, CronExpression]:
    """The canonical text, and what it stands for."""
    macro = text.strip(" \t").lower()
    if macro not in _MACROS:
        expression = parse_cron(text)
        return expression.canonical, expression
    fields = _spread_fields(macro, seed)
    return macro, replace(parse_cron(fields), notes=(f'"{macro}" is {fields} here',))


def _nth(words: list[str], timezone: str, dst: DstPolicy, seed: str | None) -> WallRule:
    """``every 2nd of <cron> [from <instant>]``."""
    example = 'for example "every 2nd of 0 9 * * mon from 2026-01-05T09:00"'
    match = _NTH.fullmatch(words[1].lower())
    if match is None:
        raise InvalidSpec(
            f'"{words[1][:40]}" does not say which ones',
            "it is written: every <n>th of <cron expression> [from <instant>]",
            example,
        )
    named, anchor = words[3:], START
    if len(named) > 1 and named[-2].lower() == "from":
        written = read_instant(named[-1], timezone, example)
        named = named[:-2]
        anchor = wall_time(timezone, written.instant)
    of, expression = _cron(" ".join(named), seed)
    begin = "" if anchor == START else f" from {anchor:%Y-%m-%dT%H:%M:%S}"
    step = int(match[1])
    text = f"every {ordinal(step)} of {of}{begin}"
    return WallRule(text, nth_of(expression, step, anchor), timezone, dst)


def _on_assets(words: list[str]) -> AssetRule:
    between = [word.lower() for word in words[1::2]]
    assets = words[2::2]
    is_list = bool(assets) and between == ["asset", *["and"] * (len(assets) - 1)]
    if not is_list or not all(map(ASSET.fullmatch, assets)):
        raise InvalidSpec(
            f'"{" ".join(words)[:60]}" names no assets',
            'it is written: on asset <name> and <name> …; a name has 1 to 100 letters, digits, "_",'
            ' ".", ":", "/", "+", "@", "=" and "-"',
            'for example "on asset sales and stock"',
        )
    named = tuple(sorted(set(assets)))
    return AssetRule(f"on asset {' and '.join(named)}", named)


def _instant_line(words: list[str], timezone: str) -> InstantRule | Bound:
    kind = words[0].lower()
    example = f'for example "{kind} 2026-12-24T18:00" or "{kind} 2026-12-24T17:00Z"'
    if len(words) != 2:
        raise InvalidSpec(
            f'"{" ".join(words)[:60]}" is not an {kind} line',
            f"it is written: {kind} <instant>",
            example,
        )
    written = read_instant(words[1], timezone, example)
    canonical = f"{kind} {written.canonical}"
    if kind == "at":
        return InstantRule(canonical, written.instant)
    return Bound(canonical, kind, written.instant)


def _interval(words: list[str]) -> IntervalRule:
    example = _spelled(words[1:]) or 'for example "every 90m from 2026-01-01T00:10Z"'
    rule = "an interval is: every <duration> [from <instant>]"
    begin_text = words_from(words, "the interval", rule, example)
    period, anchor = _duration(words[1]), EPOCH
    if begin_text is not None:
        example = 'for example "from 2026-01-01T00:10Z" or "from 2026-01-01T01:10:00+01:00"'
        anchor = read_instant(begin_text, None, example).instant
    begin = "" if anchor == EPOCH else f" from {anchor:%Y-%m-%dT%H:%M:%SZ}"
    return IntervalRule(f"every {duration_text(period)}{begin}", period, anchor)


def _spelled(words: list[str]) -> str | None:
    """How ``5 minutes`` and ``hour`` are written."""
    spelled, begins, begin = " ".join(words).partition(" from ")
    match = _SPELLED.fullmatch(spelled.lower())
    if match is None or _DURATION.fullmatch(spelled):
        return None
    return f'write "every {match[1] or 1}{match[2]}{begins}{begin}"'


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text.lower())
    if match is None or not text:
        raise InvalidSpec(
            f'"{text[:40]}" is not a duration',
            "a duration has days, hours, minutes, seconds in this order, whole and not negative",
            _spelled([text]) or 'for example "every 90m", "every 1h30m", "every 45s", "every 2d"',
        )
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not 1 <= total <= MOST_DAYS * 86_400:
        raise InvalidSpec(
            f'the interval "{text[:40]}" is too {"long" if total else "short"}',
            f"an interval is 1 second to {MOST_DAYS} days long",
            'for example "every 45s"',
        )
    return timedelta(seconds=total)
