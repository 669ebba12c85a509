"""``pgcron-ha schedules``: list, show, define, pause, run, explain and delete them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from pgcron_ha.cli import arguments, output
from pgcron_ha.cli.arguments import LOCAL_INSTANT, flag, option
from pgcron_ha.cli.backfills import backfill_command
from pgcron_ha.cli.next import fire_json, print_preview
from pgcron_ha.cli.options import label_filters, policy_options
from pgcron_ha.cli.output import columns, echo, print_result, print_rows, shown
from pgcron_ha.cli.runs import RUN_COLUMNS, print_run_id
from pgcron_ha.cli.schedule_files import FILE_COMMANDS
from pgcron_ha.cli.schedule_occurrences import changed_lines, occurrence_commands
from pgcron_ha.cli.session import Session, act, call, on_database
from pgcron_ha.cli.watching import note_what_nobody_offers
from pgcron_ha.client import checks
from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.client.schedules import check_schedule
from pgcron_ha.config.values import WrittenTime
from pgcron_ha.db.commands import functions, schedule_versions
from pgcron_ha.db.driver.pool import tried
from pgcron_ha.db.queries import overview
from pgcron_ha.errors import NotFound, PgcronError
from pgcron_ha.model.differences import changes, of_versions
from pgcron_ha.spec.preview import Preview
from pgcron_ha.spec.spec import calendars_in, spec_of

VERSION_COLUMNS = columns("VERSION AT BY=actor:24 INTERFACE WHAT=operation CHANGED:60 NOTE:60")


def _status(row: overview.Row) -> str:
    if row["status"] == "done":
        return "done"
    if not row["enabled"]:
        return "paused"
    if row["status"] == "valid" and not row["is_served"]:
        return "no node"
    return "overruns" if row["overrunning"] else str(row["status"])


def _next(row: overview.Row) -> object:
    if row["enabled"]:
        return row["next_fire"]
    return f"until {shown(row['paused_until'])}" if row["paused_until"] else row["paused_note"]


COLUMNS = columns(
    "NAME:20 SPEC:18 ZONE=timezone:14 HANDLER:20 STATUS:9 NEXT:26 LAST=last_outcome:10",
    STATUS=_status,
    NEXT=_next,
)
_UNTIL = arguments.ReadBy("duration|instant", checks.duration, arguments.local_instant)
_NEXT_FIRES = 5
_LAST_RUNS = 5


@click.group("schedules", cls=arguments.JsonGroup, commands=[*FILE_COMMANDS, backfill_command])
def schedules_group() -> None:
    """List, define, pause, explain schedules."""


schedules_group.commands.update(occurrence_commands.commands)


@schedules_group.command("list")
@option("--name", "Those with this text in their names.")
@option("--handler", "Those of this handler.")
@option("--queue", "Those of this queue.")
@label_filters
@option("--status", "Those with this status.", ("unchecked", "valid", "invalid", "done"))
@click.option("--paused/--enabled", "paused", default=None, help="Only paused or enabled ones.")
@arguments.limit_option()
def list_command(paused: bool | None, **given: Any) -> None:
    """List schedules by name."""
    given["enabled"] = None if paused is None else not paused
    output.print_rows(call(overview.schedules, **given), COLUMNS, "no schedules")


@schedules_group.command("show")
@click.argument("name")
async def show_command(session: Session, name: str) -> None:
    """Show one schedule, its next fires and its last runs."""
    found = await session.call(overview.schedule, name)
    changed = await session.call(functions.changed_occurrences, found["id"])
    runs = await session.call(overview.runs, schedule_name=name, limit=_LAST_RUNS)
    ahead = _preview(found)
    output.report({**found, **_preview_json(found, ahead), "changed": changed, "runs": runs})
    if ahead is not None:
        print_preview(ahead)
        if not found["enabled"]:
            echo("these would be its fires, if it were resumed")
    for line in changed_lines(found, changed):
        echo(line)
    if ahead is not None or changed:
        echo()
    calendars = ", ".join(name for name, _ in calendars_in(found["calendars"]))
    said = found["error"] or {}
    error = "\n".join(filter(None, (said.get(key) for key in ("message", "detail", "hint"))))
    output.print_fields({**found, "calendars": calendars or None, "error": error or None})
    echo()
    output.print_table(runs, RUN_COLUMNS, "no runs")


@schedules_group.command("put")
@click.argument("name")
@click.argument("spec")
@click.argument("handler")
@policy_options
@flag("--dry-run", "Show what would change, and change nothing.")
@option("--expect-version", "Refuse if it has another one.", click.IntRange(0))
def put_command(
    name: str, spec: str, handler: str, dry_run: bool, expect_version: int | None, **policies: Any
) -> None:
    """Create a schedule, or change it.

    The schedule NAME runs HANDLER by SPEC. SPEC is what "pgcron-ha next" takes, such as a cron
    expression or "every 90m". Options that are left out stay as they are; a new schedule gets their
    defaults. An empty --concurrency-key, --requires, --owner, --description, --tag or --link
    removes what it had. With --expect-version an edit that somebody else made since you read it is
    not lost; 0 means that it does not exist yet.
    """
    given = {policy: value for policy, value in policies.items() if value is not None}
    checked = check_schedule(name, spec, handler, given)
    how: dict[str, Any] = {"expected_version": expect_version, **checked}

    async def put(session: Session) -> tuple[overview.Row, list[overview.Row]]:
        async with tried(session.connection, keep=not dry_run):
            await session.act(functions.put_schedule, name, spec, handler, **how)
            row = await session.call(overview.schedule, name)
            spec_of(row)  # with the calendars that it names: refuse a spec that never fires
            changed = await session.call(functions.changed_occurrences, row["id"])
        await note_what_nobody_offers(session, [(handler, row["queue"], row["requires"])])
        return row, changed

    found, changed = on_database(put)
    ahead = _preview(found)
    output.report({**found, **_preview_json(found, ahead)})
    if dry_run:
        if ahead is not None:
            print_preview(ahead)
        echo(f"schedule '{name}' is not changed: this was a dry run")
        return
    for each in (*(ahead.notes if ahead is not None else ()), *changed_lines(found, changed)):
        output.note(each)
    when = "has no fire ahead" if ahead is None or ahead.is_over else "waits for its assets"
    if not found["enabled"]:
        when = "is paused"
    elif ahead is not None and ahead.fires:
        when = f"fires next at {shown(ahead.fires[0].fire_at)}"
    echo(f"schedule '{name}' {when}")


@schedules_group.command("pause")
@click.argument("name")
@option("--note", "Why; kept with every fire that is missed.")
@option("--until", "Resume it by itself: 2h (from now), 18:30, ISO.", _UNTIL)
async def pause_command(
    session: Session, name: str, note: str | None, until: timedelta | WrittenTime | None
) -> None:
    """Let a schedule not fire until it is resumed.

    What runs goes on. --until is an instant (ISO 8601, 18:30, tomorrow 03:00), or how long from now
    (2h); without an offset it is local time in the schedule's zone.
    """
    when: Any = until
    if isinstance(until, WrittenTime):
        when = await arguments.in_zone_of(session, name, until, direction=1)
    await session.act(functions.pause_schedule, name, note, until=when)
    end = (await session.call(overview.schedule, name))["paused_until"]
    output.print_result(
        {"schedule": name, "done": "paused", "until": end},
        f"schedule '{name}' is paused" + (f" until {shown(end)}" if end else ""),
    )


@schedules_group.command("resume")
@click.argument("name")
def resume_command(name: str) -> None:
    """Let a schedule fire again from now on."""
    act(functions.resume_schedule, name)
    _say(name, "resumed")


@schedules_group.command("rename")
@click.argument("name")
@click.argument("new_name")
def rename_command(name: str, new_name: str) -> None:
    """Give a schedule another name.

    It keeps its history. What waits follows the name; what runs or has ended keeps the old one.
    """
    act(functions.rename_schedule, name, new_name)
    document = {"schedule": new_name, "done": "renamed", "was": name}
    output.print_result(document, f"schedule '{name}' is now '{new_name}'")


@schedules_group.command("delete")
@click.argument("name")
def delete_command(name: str) -> None:
    """Delete a schedule; its history stays.

    What waits is cancelled, what runs goes on.
    """
    act(functions.delete_schedule, name)
    _say(name, "deleted")


@schedules_group.command("run-now")
@click.argument("name")
@arguments.args_option("Other arguments than the schedule's.")
@option("--overlap POLICY", "Another overlap policy, for this run alone.")
@option("--for", "The fire time that it is for, instead of now.", LOCAL_INSTANT, into="fire_time")
async def run_now_command(
    session: Session,
    name: str,
    args: str | None,
    overlap: str | None,
    fire_time: WrittenTime | None,
) -> None:
    """Run a schedule once, beside its fires.

    Its overlap policy holds, if no other is given. Prints the run's id. The handler gets --for as
    its fire time: ISO 8601, or 18:30, yesterday 03:00, 2h (ago); without an offset it is local time
    in the schedule's zone.
    """
    meant = fire_time and await arguments.in_zone_of(session, name, fire_time)
    made = await session.act(functions.run_now, name, args, overlap=overlap, fire_time=meant)
    print_run_id(made)


def _preview(row: overview.Row) -> Preview | None:
    """None when another version wrote the spec (its status and error say why), or when its fires
    are too rare for so many to be found: it is a schedule all the same.
    """
    try:
        return schedule_preview(row, datetime.now(UTC), _NEXT_FIRES)
    except PgcronError:
        return None


def _preview_json(row: overview.Row, ahead: Preview | None) -> dict[str, Any]:
    fires = () if ahead is None else ahead.fires
    return {
        "next_fires": [fire.fire_at for fire in fires if row["enabled"]],
        "sentence": None if ahead is None else ahead.sentence,
        "preview": [fire_json(fire) for fire in fires],
    }


def _say(name: str, done: str) -> None:
    output.print_result({"schedule": name, "done": done}, f"schedule '{name}' is {done}")


@schedules_group.command("versions")
@click.argument("name")
@arguments.limit_option(20)
def versions_command(name: str, limit: int) -> None:
    """List the versions of a schedule, newest first.

    A deleted schedule is found by its last name. The newest 200 versions are kept, those of a
    deleted schedule as long as its ledger.
    """
    found = call(schedule_versions.schedule_versions, name, limit=limit + 1)
    rows = [
        {**row, "changed": ", ".join(change.column for change in made) or None}
        for row, made in islice(of_versions(found), limit)
    ]
    print_rows(rows, VERSION_COLUMNS, "no versions")


@schedules_group.command("diff")
@click.argument("name")
@click.argument("first", required=False, type=click.IntRange(1), metavar="[A]")
@click.argument("second", required=False, type=click.IntRange(1), metavar="[B]")
def diff_command(name: str, first: int | None, second: int | None) -> None:
    """Show what changed between two versions.

    From version A to version B of a schedule: B is the newest one if it is left out, A the one
    before B. What a file would change is shown by "schedules apply --dry-run".
    """
    rows = {row["version"]: row for row in call(schedule_versions.schedule_versions, name)}
    newer = _version(name, rows, max(rows) if second is None else second)
    older = _version(name, rows, max(newer["version"] - 1, min(rows)) if first is None else first)
    differences = changes(older["content"], newer["content"])
    echo(f"--- version {older['version']}, {_who(older)}")
    echo(f"+++ version {newer['version']}, {_who(newer)}")
    for change in differences:
        before, after = (shown(value).replace("\n", "\n  ") for value in change[1:])
        print_result(change._asdict(), f"{change.column}\n- {before}\n+ {after}")
    if not differences:
        echo("nothing differs")


@schedules_group.command("restore")
@click.argument("name")
@click.argument("version", type=click.IntRange(1))
@option("--expect-version", "Refuse if it has another one.", click.IntRange(0))
def restore_command(name: str, version: int, expect_version: int | None) -> None:
    """Make an earlier version the next one.

    VERSION becomes the schedule's next one; a deleted schedule is created anew. Its name, what
    manages it and whether it is paused stay as they are.
    """

    done = act(schedule_versions.restore_schedule, name, version, expected_version=expect_version)
    print_result(
        {"schedule": name, **done},
        f"schedule '{name}' has version {done['version']}: {done['note']}",
    )


def _version(name: str, rows: dict[int, overview.Row], version: int) -> overview.Row:
    if version not in rows:
        raise NotFound(
            f"schedule '{name[:200]}' has no version {version}",
            f"Its versions {min(rows)} to {max(rows)} are kept.",
            f"`pgcron-ha schedules versions {name}` lists them.",
        )
    return rows[version]


def _who(row: overview.Row) -> str:
    note = f" ({row['note']})" if row["note"] else ""
    return f"{shown(row['at'])} by {row['actor']} through {row['interface']}{note}"
