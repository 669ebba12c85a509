"""``pgcron-ha schedules``: list, show, define, pause, run, explain and delete them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.backfills import backfill_command
from pgcron_ha.cli.output import (
    Column,
    echo,
    json_option,
    limit_option,
    print_fields,
    print_json,
    print_rows,
    shown,
)
from pgcron_ha.cli.previews import fire_json, print_preview
from pgcron_ha.cli.runs import print_run_id, print_runs
from pgcron_ha.cli.schedule_files import apply_command, export_command, schema_command
from pgcron_ha.cli.schedule_import import import_group
from pgcron_ha.cli.schedule_occurrences import OCCURRENCE_COMMANDS, changed_lines
from pgcron_ha.cli.schedule_options import policies_of, policy_options
from pgcron_ha.cli.schedule_verify import verify_command
from pgcron_ha.cli.schedule_versions import diff_command, restore_command, versions_command
from pgcron_ha.cli.schedule_why import why_command
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client import checks
from pgcron_ha.client.options import OF_SCHEDULES, check_each
from pgcron_ha.client.previews import not_offered, schedule_preview
from pgcron_ha.client.schedules import check_schedule
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands.occurrences import changed_occurrences
from pgcron_ha.db.driver.clients import tried
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.pages.schedules import offered
from pgcron_ha.errors import PgcronError, UnknownZone
from pgcron_ha.spec.preview import Preview
from pgcron_ha.spec.schedule_spec import calendars_in, spec_of

COLUMNS = (
    Column("NAME", "name", 20),
    Column("SPEC", "spec", 18),
    Column("ZONE", "timezone", 14),
    Column("HANDLER", "handler", 20),
    Column("STATUS", "shown_status", 9),
    Column("NEXT", "next_fire"),
    Column("LAST", "last_outcome", 10),
)
_NEXT_FIRES = 5
_LAST_RUNS = 5


@click.group("schedules")
def schedules_group() -> None:
    """List, define, pause, explain schedules."""


schedules_group.add_command(versions_command)
for _command in OCCURRENCE_COMMANDS:
    schedules_group.add_command(_command)
schedules_group.add_command(why_command)
schedules_group.add_command(verify_command)
schedules_group.add_command(diff_command)
schedules_group.add_command(restore_command)
schedules_group.add_command(apply_command)
schedules_group.add_command(export_command)
schedules_group.add_command(schema_command)
schedules_group.add_command(import_group)
schedules_group.add_command(backfill_command)


@schedules_group.command("list")
@click.option("--name", help="Those with this text in their names.")
@click.option("--handler", help="Those of this handler.")
@click.option("--queue", help="Those of this queue.")
@click.option("--status", type=click.Choice(["unchecked", "valid", "invalid", "done"]))
@click.option("--paused/--enabled", "paused", default=None, help="Only paused or enabled ones.")
@limit_option()
@json_option
def list_command(
    name: str | None,
    handler: str | None,
    queue: str | None,
    status: str | None,
    paused: bool | None,
    limit: int,
    as_json: bool,
) -> None:
    """List schedules by name."""
    rows = on_database(
        lambda s: overview.schedules(
            s.connection,
            name=name,
            handler=handler,
            queue=queue,
            status=status,
            enabled=None if paused is None else not paused,
            limit=limit,
            schema=s.schema,
        )
    )
    if not as_json:
        rows = [{**row, "shown_status": _status(row)} for row in rows]
    print_rows(rows, COLUMNS, as_json, "no schedules")


@schedules_group.command("show")
@click.argument("name")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show one schedule, its next fires and its last runs."""

    async def read(
        session: Session,
    ) -> tuple[overview.Row, list[overview.Row], list[overview.Row]]:
        found = await overview.schedule(session.connection, name, schema=session.schema)
        changed = await changed_occurrences(session.connection, found["id"], schema=session.schema)
        runs = await overview.runs(
            session.connection, schedule_name=name, limit=_LAST_RUNS, schema=session.schema
        )
        return found, changed, runs

    found, changed, runs = on_database(read)
    ahead = _preview(found)
    if as_json:
        print_json({**found, **_preview_json(found, ahead), "changed": changed, "runs": runs})
        return
    calendars = ", ".join(name for name, _ in calendars_in(found["calendars"]))
    error = found["error"] and _sentences(found["error"])
    print_fields({**found, "calendars": calendars or None, "error": error}, as_json=False)
    echo()
    for line in changed_lines(found, changed):
        echo(line)
    if ahead is not None:
        print_preview(ahead)
        if not found["enabled"]:
            echo("these would be its fires, if it were resumed")
        echo()
    print_runs(runs, as_json=False)


@schedules_group.command("put", short_help="Create a schedule, or change it.")
@click.argument("name")
@click.argument("spec")
@click.argument("handler")
@policy_options
@click.option("--dry-run", is_flag=True, help="Say what would be, and change nothing.")
@click.option("--expect-version", type=click.IntRange(0), help="Refuse if it has another one.")
@json_option
def put_command(
    name: str,
    spec: str,
    handler: str,
    dry_run: bool,
    expect_version: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Create the schedule NAME, or change it: run HANDLER by SPEC.

    SPEC is what "pgcron-ha next" takes, such as a cron expression or "every 90m". Options that are
    left out stay as they are; a new schedule gets their defaults. With --expect-version an edit
    that somebody else made since you read it is not lost; 0 means that it does not exist yet.
    """
    given = policies_of(options)
    with suppress(UnknownZone):  # the nodes may know it; all else is told before they are asked
        check_schedule(name, spec, handler, given)

    async def put(session: Session) -> tuple[overview.Row, list[overview.Row], str | None]:
        policies = check_schedule(name, spec, handler, given)
        async with tried(session.connection, keep=not dry_run):
            await functions.put_schedule(
                session.connection,
                name,
                spec,
                handler,
                actor=session.actor,
                interface="cli",
                schema=session.schema,
                expected_version=expect_version,
                **policies,
            )
            row = await overview.schedule(session.connection, name, schema=session.schema)
            spec_of(row)  # with the calendars that it names: what fires never is not made
            changed = await changed_occurrences(
                session.connection, row["id"], schema=session.schema
            )
            taken = await offered(
                session.connection, handler, row["queue"], row["requires"], schema=session.schema
            )
            lacking = not_offered(handler, row["queue"], taken) if taken["handlers"] else None
            return row, changed, lacking

    found, changed, lacking = on_database(put)
    ahead = _preview(found)
    if as_json:
        print_json({**found, **_preview_json(found, ahead)})
        return
    notes = [] if ahead is None or dry_run else list(ahead.notes)
    for note in [*notes, *([] if lacking is None else [lacking])]:
        echo(f"note: {note}", err=True)
    for line in changed_lines(found, changed) if not dry_run else ():
        echo(f"note: {line}", err=True)
    if dry_run and ahead is not None:
        print_preview(ahead)
        echo(f"schedule '{name}' is not changed: this was a dry run")
        return
    when = "has no fire ahead" if found["enabled"] else "is paused"
    if fires := _next_fires(found, ahead):
        when = f"fires next at {shown(fires[0])}"
    echo(f"schedule '{name}' {when}")


@schedules_group.command("pause", short_help="Let a schedule not fire until it is resumed.")
@click.argument("name")
@click.option("--note", help="Why; kept with every fire that is missed.")
@click.option(
    "--until", metavar="DURATION|INSTANT", help="Resume it by itself: 2h, 2026-12-24T18:00."
)
@json_option
def pause_command(name: str, note: str | None, until: str | None, as_json: bool) -> None:
    """Let a schedule not fire until it is resumed; what runs goes on.

    An instant is ISO 8601; without an offset it is local time in the schedule's zone.
    """
    lasts = arguments.duration_or_none(until)

    async def pause(session: Session) -> datetime | None:
        end: datetime | timedelta | None = lasts
        if until is not None and lasts is None:
            end = await arguments.instant_of_schedule("--until", until, name, session)
        await functions.pause_schedule(
            session.connection,
            name,
            note,
            until=end,
            actor=session.actor,
            interface="cli",
            schema=session.schema,
        )
        found = await overview.schedule(session.connection, name, schema=session.schema)
        paused_until: datetime | None = found["paused_until"]
        return paused_until

    end = on_database(pause)
    if as_json:
        print_json({"schedule": name, "done": "paused", "until": end})
    else:
        echo(f"schedule '{name}' is paused" + (f" until {shown(end)}" if end else ""))


@schedules_group.command("resume")
@click.argument("name")
@json_option
def resume_command(name: str, as_json: bool) -> None:
    """Let a schedule fire again from now on."""
    on_database(
        lambda s: functions.resume_schedule(
            s.connection, name, actor=s.actor, interface="cli", schema=s.schema
        )
    )
    _say(name, "resumed", as_json)


@schedules_group.command("rename", short_help="Give a schedule another name.")
@click.argument("name")
@click.argument("new_name")
@json_option
def rename_command(name: str, new_name: str, as_json: bool) -> None:
    """Give the schedule NAME another name; it keeps its history.

    What waits follows the name; what runs or has ended keeps the old one.
    """

    async def rename(session: Session) -> str:
        await functions.rename_schedule(
            session.connection,
            name,
            checks.text("the new name", new_name, checks.MOST_NAME_CHARACTERS),
            actor=session.actor,
            interface="cli",
            schema=session.schema,
        )
        found = await overview.schedule(session.connection, new_name, schema=session.schema)
        return str(found["managed_by"])

    managed_by = on_database(rename)
    if managed_by in ("code", "file"):
        echo(
            f"note: it is managed by {managed_by}: what declares '{name}' there makes it anew;"
            " rename it there, too",
            err=True,
        )
    if as_json:
        print_json({"schedule": new_name, "done": "renamed", "was": name})
    else:
        echo(f"schedule '{name}' is now '{new_name}'")


@schedules_group.command("delete")
@click.argument("name")
@json_option
def delete_command(name: str, as_json: bool) -> None:
    """Delete a schedule; its history stays.

    What waits is cancelled, what runs goes on.
    """
    on_database(
        lambda s: functions.delete_schedule(
            s.connection, name, actor=s.actor, interface="cli", schema=s.schema
        )
    )
    _say(name, "deleted", as_json)


@schedules_group.command("run-now")
@click.argument("name")
@arguments.args_option("Other arguments than the schedule's.")
@click.option("--overlap", metavar="POLICY", help="Another overlap policy, for this run alone.")
@click.option(
    "--for", "fire_time", metavar="INSTANT", help="The fire time that it is for, instead of now."
)
@json_option
def run_now_command(
    name: str, args: str | None, overlap: str | None, fire_time: str | None, as_json: bool
) -> None:
    """Run a schedule once, beside its fires.

    Its overlap policy holds, if no other is given. Prints the run's id. --for INSTANT is ISO 8601;
    without an offset it is local time in the schedule's zone; the handler is told it as its fire
    time.
    """
    check_each({"overlap": overlap}, OF_SCHEDULES)
    given = None if args is None else checks.args_text(args)

    async def run(session: Session) -> int:
        meant = None
        if fire_time is not None:
            meant = await arguments.instant_of_schedule("--for", fire_time, name, session)
        return await functions.run_now(
            session.connection,
            name,
            given,
            overlap=overlap,
            fire_time=meant,
            actor=session.actor,
            schema=session.schema,
        )

    print_run_id(on_database(run), as_json)


def _status(row: overview.Row) -> str:
    if row["status"] == "done":
        return "done"
    if not row["enabled"]:
        return "paused"
    return "overruns" if row["overrunning"] else str(row["status"])


def _preview(row: overview.Row) -> Preview | None:
    """None when another version wrote the spec; its status and error tell."""
    try:
        return schedule_preview(row, datetime.now(UTC), _NEXT_FIRES)
    except PgcronError:
        return None


def _sentences(error: Mapping[str, str | None]) -> str:
    """What is wrong with a schedule that no node can read, a line for each sentence."""
    return "\n".join(filter(None, (error.get(key) for key in ("message", "detail", "hint"))))


def _next_fires(row: overview.Row, ahead: Preview | None) -> list[datetime]:
    """Nothing while it is paused."""
    return [fire.fire_at for fire in ahead.fires] if ahead is not None and row["enabled"] else []


def _preview_json(row: overview.Row, ahead: Preview | None) -> dict[str, Any]:
    fires = () if ahead is None else ahead.fires
    return {
        "next_fires": _next_fires(row, ahead),
        "sentence": None if ahead is None else ahead.sentence,
        "preview": [fire_json(fire) for fire in fires],
    }


def _say(name: str, done: str, as_json: bool) -> None:
    if as_json:
        print_json({"schedule": name, "done": done})
    else:
        echo(f"schedule '{name}' is {done}")
