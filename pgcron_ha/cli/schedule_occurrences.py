"""``schedules why``, ``skip``, ``move``, ``edit-`` and ``restore-occurrence``: one fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import instant_text, print_fields, print_result, report
from pgcron_ha.cli.session import Session, with_session
from pgcron_ha.client.fires import NO_FIRE, changed_words, explain, is_fire, require_fire
from pgcron_ha.db.commands import occurrences
from pgcron_ha.db.commands.schedule_versions import last_definition
from pgcron_ha.db.queries import overview, reasons

_fire_arguments = arguments.together(
    click.argument("name"), click.argument("instant", type=arguments.LOCAL_INSTANT)
)
_note = click.option("--note", help="Why; shown by `schedules why`.")


@click.command("why", cls=arguments.JsonCommand)
@_fire_arguments
@with_session
async def why_command(session: Session, name: str, instant: datetime) -> None:
    """Say why a schedule ran, or did not run, at INSTANT.

    INSTANT is ISO 8601; without an offset it is local time in the schedule's zone. A deleted
    schedule is found by its last name.
    """
    row = await session.call(last_definition, name)
    moment = arguments.in_zone(instant, row["timezone"])
    found = explain(row, moment, await session.call(reasons.why, name, moment))
    reported = found.reported
    fields = {"schedule": name, "instant": instant_text(found.instant), **reported._asdict()}
    if reported.decision == "not an instant":
        fields |= {"fires_before": found.before, "fires_after": found.after}
    report(fields)
    if reported.run is not None and reported.outcome is None:
        fields["outcome"] = "retention has removed it"
    print_fields(fields)


@click.command("skip", cls=arguments.JsonCommand)
@_fire_arguments
@_note
@with_session
async def skip_command(session: Session, name: str, instant: datetime, note: str | None) -> None:
    """Let the fire of a schedule at INSTANT not run.

    INSTANT is ISO 8601; without an offset it is local time in the schedule's zone. It may lie any
    time ahead, and survives edits of the schedule.
    """
    fire = await _fire(session, name, instant)
    await session.act(occurrences.skip_occurrence, name, fire, note)
    _say(name, fire, "is skipped")


@click.command("move", cls=arguments.JsonCommand)
@_fire_arguments
@click.argument("to", type=arguments.LOCAL_INSTANT)
@_note
@with_session
async def move_command(
    session: Session, name: str, instant: datetime, to: datetime, note: str | None
) -> None:
    """Let one fire run at another time.

    The fire of a schedule at INSTANT runs at TO, before or after. Its run is still that of INSTANT.
    Both are ISO 8601; without an offset, local time in the schedule's zone.
    """
    fire = await _fire(session, name, instant)
    then = await arguments.in_zone_of(session, name, to)
    await session.act(occurrences.move_occurrence, name, fire, then, note)
    _say(name, fire, f"runs at {instant_text(then)}")


@click.command("edit-occurrence", cls=arguments.JsonCommand)
@_fire_arguments
@arguments.args_option("Its arguments instead of the schedule's.", required=True)
@_note
@with_session
async def edit_occurrence_command(
    session: Session, name: str, instant: datetime, args: str, note: str | None
) -> None:
    """Give one fire other arguments.

    It is the fire of the schedule at INSTANT.
    """
    fire = await _fire(session, name, instant)
    await session.act(occurrences.edit_occurrence, name, fire, args, note)
    _say(name, fire, "has other args")


@click.command("restore-occurrence", cls=arguments.JsonCommand)
@_fire_arguments
@with_session
async def restore_occurrence_command(session: Session, name: str, instant: datetime) -> None:
    """Let one fire be as the schedule says.

    It undoes a skip, move or edit of the fire at INSTANT.
    """
    fire = await arguments.in_zone_of(session, name, instant)
    await session.act(occurrences.restore_occurrence, name, fire)
    _say(name, fire, "is restored")


OCCURRENCE_COMMANDS = (
    why_command,
    skip_command,
    move_command,
    edit_occurrence_command,
    restore_occurrence_command,
)


def changed_lines(schedule: Mapping[str, Any], changed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fires to come that somebody has changed, and whether they still are fires."""
    lines = []
    for one in changed:
        words = changed_words(one) + ("" if is_fire(schedule, one["fire_at"]) else NO_FIRE)
        lines.append(f"changed {instant_text(one['fire_at'])}  {words}")
    return lines


async def _fire(session: Session, name: str, instant: datetime) -> datetime:
    """The instant, if it is a fire to come of the schedule. NotFound, InvalidInput."""
    row = await session.call(overview.schedule, name)
    fire = arguments.in_zone(instant, row["timezone"])
    require_fire(row, fire)
    return fire


def _say(name: str, fire: datetime, done: str) -> None:
    print_result(
        {"schedule": name, "instant": fire, "done": done},
        f"the fire of schedule '{name}' at {instant_text(fire)} {done}",
    )
