"""``schedules skip``, ``move``, ``edit-occurrence``, ``restore-occurrence``: one fire to come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import echo, instant_text, json_option, print_json
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client import checks
from pgcron_ha.client.fires import NO_FIRE, changed_words, is_fire, require_fire
from pgcron_ha.db.commands import occurrences
from pgcron_ha.db.queries import overview

_note = click.option("--note", help="Why; shown by `schedules why`.")

Change = Callable[[Session, datetime], Awaitable[None]]


@click.command("skip")
@click.argument("name")
@click.argument("instant")
@_note
@json_option
def skip_command(name: str, instant: str, note: str | None, as_json: bool) -> None:
    """Let the fire of a schedule at INSTANT not run.

    INSTANT is ISO 8601; without an offset it is local time in the schedule's zone. It may lie any
    time ahead, and survives edits of the schedule.
    """

    async def skip(session: Session, fire: datetime) -> None:
        given: dict[str, Any] = {"actor": session.actor, "schema": session.schema}
        await occurrences.skip_occurrence(session.connection, name, fire, note, **given)

    _say(name, _change(name, instant, skip), "is skipped", as_json)


@click.command("move", short_help="Let one fire run at another time.")
@click.argument("name")
@click.argument("instant")
@click.argument("to")
@_note
@json_option
def move_command(name: str, instant: str, to: str, note: str | None, as_json: bool) -> None:
    """Let the fire of a schedule at INSTANT run at TO, before or after.

    Its run is still that of INSTANT. Both are ISO 8601; without an offset, local time in the
    schedule's zone.
    """
    moved: list[datetime] = []

    async def move(session: Session, fire: datetime) -> None:
        moved.append(await arguments.instant_of_schedule("TO", to, name, session))
        given: dict[str, Any] = {"actor": session.actor, "schema": session.schema}
        await occurrences.move_occurrence(session.connection, name, fire, moved[0], note, **given)

    fire = _change(name, instant, move)
    _say(name, fire, f"runs at {instant_text(moved[0].astimezone(UTC))}", as_json)


@click.command("edit-occurrence", short_help="Give one fire other arguments.")
@click.argument("name")
@click.argument("instant")
@arguments.args_option("Its arguments instead of the schedule's.")
@_note
@json_option
def edit_occurrence_command(
    name: str, instant: str, args: str | None, note: str | None, as_json: bool
) -> None:
    """Give the fire of a schedule at INSTANT other arguments."""
    if args is None:
        raise click.UsageError("Missing option '--args'.")
    given_args = checks.args_text(args)

    async def edit(session: Session, fire: datetime) -> None:
        given: dict[str, Any] = {"actor": session.actor, "schema": session.schema}
        await occurrences.edit_occurrence(session.connection, name, fire, given_args, note, **given)

    _say(name, _change(name, instant, edit), "has other args", as_json)


@click.command("restore-occurrence", short_help="Let one fire be as the schedule says.")
@click.argument("name")
@click.argument("instant")
@json_option
def restore_occurrence_command(name: str, instant: str, as_json: bool) -> None:
    """Let the fire of a schedule at INSTANT be as the schedule says, after a skip, move or edit."""

    async def restore(session: Session, fire: datetime) -> None:
        given: dict[str, Any] = {"actor": session.actor, "schema": session.schema}
        await occurrences.restore_occurrence(session.connection, name, fire, **given)

    _say(name, _change(name, instant, restore, is_fire=False), "is restored", as_json)


def changed_lines(schedule: Mapping[str, Any], changed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fires to come that somebody has changed, and whether they still are fires."""
    lines = []
    for one in changed:
        words = changed_words(one) + ("" if is_fire(schedule, one["fire_at"]) else NO_FIRE)
        lines.append(f"changed {instant_text(one['fire_at'])}  {words}")
    return lines


OCCURRENCE_COMMANDS = (
    skip_command,
    move_command,
    edit_occurrence_command,
    restore_occurrence_command,
)


def _change(name: str, instant: str, change: Change, is_fire: bool = True) -> datetime:
    """The instant, after the change; one that is no (more a) fire may still be restored."""

    async def ask(session: Session) -> datetime:
        fire = await arguments.instant_of_schedule("INSTANT", instant, name, session)
        if is_fire:
            row: dict[str, Any] = await overview.schedule(
                session.connection, name, schema=session.schema
            )
            require_fire(row, fire)
        await change(session, fire)
        return fire.astimezone(UTC)

    return on_database(ask)


def _say(name: str, fire: datetime, done: str, as_json: bool) -> None:
    if as_json:
        print_json({"schedule": name, "instant": fire, "done": done})
    else:
        echo(f"the fire of schedule '{name}' at {instant_text(fire)} {done}")
