"""``pgcron-ha next``: the fire times of a spec."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import click

from pgcron_ha.cli.arguments import LOCAL_INSTANT, JsonCommand, flag, in_zone, limit_option, option
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.options import timezone_option
from pgcron_ha.cli.output import echo, note, report
from pgcron_ha.cli.session import call
from pgcron_ha.config.values import WrittenTime
from pgcron_ha.db.commands.calendars import calendars_of
from pgcron_ha.spec.calendars.calendar import Calendars
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.preview import Preview, PreviewFire, marked
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.spec.spec import Spec, calendar_names, calendars_in, parse_spec

_LOCAL_WIDTH = 32


@click.command("next", cls=JsonCommand)
@click.argument("spec")
@timezone_option
@option(
    "--from INSTANT",
    "List fires after (with --prev: before) INSTANT. Default: now.",
    LOCAL_INSTANT,
    into="start",
)
@limit_option(5)
@option("--dst POLICY", "vixie, robfig (alias kubernetes) or skip.", default="vixie")
@option("--seed UUID", "The schedule whose @daily~ (and its like) is meant.")
@flag("--prev", "Look back, newest first.", "is_backwards")
def next_command(
    spec: str,
    timezone: str | None,
    start: WrittenTime | None,
    limit: int,
    dst: str,
    seed: str | None,
    is_backwards: bool,
) -> None:
    """Print SPEC in English and its fire times, in local time and in UTC.

    SPEC is a cron expression of five fields, or six with seconds first, "every 90m", "at INSTANT",
    "rrule FREQ=..." or "every 2nd of 0 9 * * mon"; several lines are a union, less what lines with
    "not" leave out, between those with "from" and "until". Calendars are those of the
    database, time zones those installed here. INSTANT is ISO 8601, 18:30, tomorrow 03:00, 2h (ago);
    without an offset it is local time in ZONE, which is UTC by default.
    """
    tz = timezone or "UTC"
    parsed = parse_spec(spec, tz, DstPolicy.parse(dst), seed, _calendars_for(spec))
    moment = datetime.now(UTC) if start is None else in_zone(start, tz)
    fires = tuple(islice(_fires(parsed, moment, is_backwards), limit))
    for fire in fires:
        report(fire_json(fire))
    is_over = len(fires) < limit and not parsed.assets
    found = Preview(sentence(parsed), parsed.notes, parsed.timezone, fires, is_over)
    print_preview(found, "before" if is_backwards else "after")


def _fires(spec: Spec, start: datetime, is_backwards: bool) -> Iterator[PreviewFire]:
    """The fires after `start`, or before it, newest first; each with what the clock does to it."""
    step = spec.previous if is_backwards else spec.next
    last = start
    while (fire := step(last)) is not None:
        yield marked(spec, fire, None if is_backwards else last)
        last = fire


def _calendars_for(spec: str) -> Calendars:
    """The calendars that the spec names, of the database; it needs none for other specs."""
    if not calendar_names(spec) or command_context().load().dsn is None:
        return ()
    return calendars_in(call(calendars_of, spec))


def print_preview(preview: Preview, direction: str = "after") -> None:
    """The sentence and the fires under their headings; notes for the author go to stderr."""
    for each in preview.notes:
        note(each)
    echo(preview.sentence)
    if preview.fires:
        echo(f"{preview.timezone:<{_LOCAL_WIDTH}}UTC")
    for fire in preview.fires:
        remark = f"   {fire.note}" if fire.note else ""
        echo(f"{fire.local_text:<{_LOCAL_WIDTH}}{fire.utc_text}{remark}")
    if preview.is_over:
        echo(f"no fires {direction} that")


def fire_json(fire: PreviewFire) -> dict[str, str | None]:
    """As ``next --json`` and ``schedules show --json`` print one."""
    return {"fire_at": fire.utc_text, "local": fire.local.isoformat(), "note": fire.note}
