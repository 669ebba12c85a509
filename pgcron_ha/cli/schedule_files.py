"""``schedules apply``, ``export`` and ``schema``: schedules, workflows and calendars as YAML;
``schedules import``: what other schedulers run, as a file of schedules to review.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

import click

from pgcron_ha.cli.arguments import JsonCommand, flag, option, together
from pgcron_ha.cli.context import refuse_password
from pgcron_ha.cli.output import echo, echo_file, plural, report, shown, warn
from pgcron_ha.cli.session import Session, with_session
from pgcron_ha.cli.watching import note_what_nobody_offers
from pgcron_ha.db.commands import calendars, schedule_files
from pgcron_ha.db.driver.pool import tried
from pgcron_ha.db.queries.foreign_schedulers import pg_cron_jobs
from pgcron_ha.db.queries.overview import NO_SCHEDULE, Row
from pgcron_ha.errors import InvalidInput, NotFound
from pgcron_ha.model.differences import changes
from pgcron_ha.schedule_files import definitions
from pgcron_ha.schedule_files.crontab import import_crontab
from pgcron_ha.schedule_files.documents import read_file, read_text
from pgcron_ha.schedule_files.imported import Imported
from pgcron_ha.schedule_files.json_schema import json_schema
from pgcron_ha.schedule_files.kubernetes import import_kubernetes
from pgcron_ha.schedule_files.pg_cron import import_pg_cron
from pgcron_ha.spec.zones import load_zone

_SIGNS = {"added": "+", "changed": "~", "pruned": "-"}
_MOST_CHARACTERS = 200
_REPORTED = ("spec", "handler", *definitions.POLICIES, "managed_by", "source")


_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
# Opened when there is something to write.
_NEW_FILE: Final = click.File("w", encoding="utf-8", lazy=True)
_files = together(
    option("--output FILE", "Write the schedules to this file.", _NEW_FILE),
    option("--templates FILE", "Write the part for pgcron-ha.toml to this file.", _NEW_FILE),
)


@click.command("apply", cls=JsonCommand)
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@option("--source NAME", "Who owns them; without it PATH's own name.")
@flag("--prune", "Delete what the source owns and no longer defines.")
@flag("--take-over", "Also what another source owns.")
@flag("--dry-run", "Show what would change, and change nothing.")
async def apply_command(
    session: Session, path: Path, source: str | None, prune: bool, take_over: bool, dry_run: bool
) -> None:
    """Make schedules what a file or a folder says.

    PATH is the file, or a folder with files, of schedules, workflows and calendars. All of them or
    none, in one transaction. What a definition leaves out is its default; whether a schedule is
    paused is left alone unless the file says "enabled". A dry run does everything and rolls it
    back, so that it also shows what the database refuses.
    """
    found = definitions.read_definitions(definitions.files_of(path))
    own = path.resolve()
    owner = source if source is not None else own.name if own.is_dir() else own.stem
    if prune and not any((found.schedules, found.workflows, found.calendars)):
        raise InvalidInput(
            f"{path} defines no schedule",
            f"Pruning would delete everything that the source '{owner}' owns.",
            "Name the right files; `pgcron-ha schedules delete` deletes a schedule.",
        )
    how: dict[str, Any] = {"source": owner, "take_over": take_over}
    names, rows = list(found.schedules), [{"name": n, **v} for n, v in found.schedules.items()]
    act = session.act
    async with tried(session.connection, keep=not dry_run):
        with found.placed():
            # Calendars and workflows first; what is pruned goes in the other order.
            of_calendars = await act(
                calendars.apply_calendars, json.dumps(found.calendars), schedules=names, **how
            )
            of_workflows = await act(
                schedule_files.apply_workflows, json.dumps(found.workflows), **how
            )
            of_schedules = await act(schedule_files.apply_schedules, rows, **how)
            if prune:
                of_schedules += await act(schedule_files.prune_schedules, owner, names)
                of_workflows += await act(schedule_files.prune_workflows, owner, [*found.workflows])
                of_calendars += await act(calendars.prune_calendars, owner, [*found.calendars])
    new = [one["content"] for one in of_schedules if one["change"] in ("added", "changed")]
    # Every node takes workflows, also those that it learns of in a moment.
    runs = [row for row in new if not row["handler"].startswith("workflow:")]
    wanted = dict.fromkeys(
        (row["handler"], row["queue"], tuple(row["requires"] or ())) for row in runs
    )
    await note_what_nobody_offers(session, wanted)
    default = (await session.call(schedule_files.default_schedule))["content"]
    for calendar in of_calendars:
        used = f"used by {plural(calendar['users'], 'schedule')}" if calendar["users"] else None
        _print_text("calendar", calendar, owner, used)
    for workflow in of_workflows:
        texts = {key: _workflow_text(workflow[key]) for key in ("before", "after")}
        _print_text("workflow", workflow | texts, owner)
        _warn_of_code("workflow", workflow["name"], workflow["managed_before"])
    for one in of_schedules:
        _print_schedule(one, default)
    for kind, applied in (("calendars", of_calendars), ("workflows", of_workflows)):
        if applied:
            echo(f"{kind}: {_counted(applied)}")
    echo(_counted(of_schedules) or "no schedules")
    if dry_run:
        echo("nothing is changed: this was a dry run")


@click.command("export")
@click.argument("names", nargs=-1)
@option("--source NAME", "Only those of a source.")
@option("--output FILE", "A file instead of stdout.", _NEW_FILE)
@with_session  # which `JsonCommand` would do; but this has no --json: it prints a file
async def export_command(
    session: Session, names: tuple[str, ...], source: str | None, output: TextIO | None
) -> None:
    """Print schedules as a file for "apply".

    All schedules, workflows and calendars; or only the schedules with these names, or of a source,
    and the workflows and calendars that they use or that the source owns. Values that are the
    default are left out.
    """
    exported = await session.call(schedule_files.schedules_to_export, names or None, source)
    rows = [row["content"] for row in exported]
    used: list[str] | None = None
    started: list[str] | None = None
    if names or source is not None:
        used = sorted({name for row in rows for name in json.loads(row["calendars"] or "{}")})
        started = [row["handler"].removeprefix("workflow:") for row in rows]
    shared = await session.call(calendars.calendars_to_export, used, source)
    contents = {row["name"]: row["content"] for row in shared}
    found = await session.call(schedule_files.workflows_to_export, started, source)
    workflows = {row["name"]: definitions.workflow_of(row["definition"]) for row in found}
    default = (await session.call(schedule_files.default_schedule))["content"]
    if missing := sorted(set(names) - {row["name"] for row in rows}):
        message, *more = NO_SCHEDULE
        raise NotFound(message.format(missing[0]), *more)
    schedules = {row["name"]: definitions.definition_of(row, default) for row in rows}
    _write(definitions.as_yaml(schedules, contents, workflows), output)


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of a file of schedules.

    Editors and checks read it.
    """
    echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def _write(text: str, file: TextIO | None) -> None:
    """To stdout without a file."""
    if file is None:
        echo_file(text)
    else:
        file.write(text)


def _print_schedule(one: Row, default: Mapping[str, Any]) -> None:
    """What differs, old and new; a new schedule differs from the defaults."""
    name, change, content = one["name"], one["change"], one["content"]
    previous = None if change == "added" else one["previous"]
    differences = changes(previous or default, content) if change != "pruned" else []
    seen = [each for each in differences if each.column in _REPORTED]
    columns = {each.column: (each.before, each.after) for each in seen}
    report({"schedule": name, "change": change, "columns": columns})
    lines = []
    for column, (before, after) in columns.items():
        was = "" if previous is None else f"{_short(before)} → "
        lines.append(f"{column}: {was}{_short(after)}")
    _print_change(name, change, lines)
    if previous is not None:
        _warn_of_code("schedule", name, previous["managed_by"])


def _warn_of_code(kind: str, name: str, managed_before: str | None) -> None:
    if managed_before == "code":
        taken_back = "The next start of a node with that application takes it back."
        warn(f"{kind} '{name}' was managed by the code of an application", taken_back)


def _print_text(kind: str, one: Row, source: str, used: str | None = None) -> None:
    """Lines of a calendar or workflow that are new or gone, and who uses it."""
    name, change = one["name"], one["change"]
    old, new = ((one[key] or "").rstrip().splitlines() for key in ("before", "after"))
    differing = islice(unified_diff(old, new, n=0, lineterm=""), 2, None)
    lines = [f"{line[0]} {line[1:]}" for line in differing if not line.startswith("@@")]
    report({kind: name, "change": change, "lines": lines})
    if change == "pruned":
        lines = []
    elif change == "changed":
        lines += [used] if lines and used else []
        if one["source_before"] != source:
            lines.insert(0, f"source: {one['source_before'] or '-'} → {source}")
    _print_change(f"{kind} {name}", change, lines)


def _workflow_text(definition: Row | None) -> str | None:
    if definition is None:
        return None
    return definitions.yaml_text(definitions.workflow_of(definition))


def _print_change(title: str, change: str, lines: Sequence[str]) -> None:
    if change in _SIGNS:
        echo(f"{_SIGNS[change]} {title}")
        for line in lines:
            echo(f"    {line}")


def _counted(applied: Sequence[Row]) -> str:
    """``2 added, 1 unchanged``; empty if there is nothing."""
    counts = Counter(one["change"] for one in applied)
    words = ("added", "changed", "unchanged", "pruned")
    return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])


def _short(value: object) -> str:
    text = " ".join(shown(value).split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


@click.group("import")
def import_group() -> None:
    """Read the jobs of cron, Kubernetes and pg_cron.

    Turns them into a file of schedules. Prints the file, and what nodes need in their
    pgcron-ha.toml to run the commands; what could not be carried over, and why, goes to stderr.
    Review the file, then "schedules apply" it.
    """


@import_group.command("crontab")
@click.argument("file", type=_FILE)
@flag("--system", "Each line names a user (/etc/crontab).", "is_system")
@option("--timezone ZONE", "Of the host it comes from.", also="--tz", default="UTC")
@_files
def crontab_command(file: Path, is_system: bool, timezone: str, **files: TextIO | None) -> None:
    """Import a crontab; CRON_TZ in it wins over --timezone."""
    load_zone(timezone)
    found = import_crontab(read_text(file), str(file), timezone=timezone, is_system=is_system)
    _report_import(found, **files)


@import_group.command("kubernetes")
@click.argument("manifests", type=_FILE, nargs=-1, required=True, metavar="FILES...")
@option("--timezone ZONE", "Of jobs without a timeZone.", also="--tz", default="UTC")
@_files
def kubernetes_command(manifests: tuple[Path, ...], timezone: str, **files: TextIO | None) -> None:
    """Import the CronJobs (batch/v1) of manifests in YAML or JSON."""
    load_zone(timezone)
    documents = [document for file in manifests for document in read_file(file)]
    _report_import(import_kubernetes(documents, timezone=timezone), **files)


@import_group.command("pg_cron")
@option("--from-dsn URL", "The database that has cron.job.", required=True)
@option("--timezone ZONE", "pg_cron's; without it what the database says, or UTC.", also="--tz")
@_files
def pg_cron_command(from_dsn: str, timezone: str | None, **files: TextIO | None) -> None:
    """Import pg_cron's jobs from its table."""
    refuse_password("--from-dsn", from_dsn, "Leave it to ~/.pgpass, a service file or PGPASSWORD.")
    texts, reported = asyncio.run(pg_cron_jobs(from_dsn))
    zone = timezone or {"GMT": "UTC"}.get(reported or "", reported) or "UTC"
    load_zone(zone)
    rows = [json.loads(text) for text in texts]
    server = urlsplit(from_dsn).hostname
    _report_import(import_pg_cron(rows, "cron.job", timezone=zone, server=server), **files)


FILE_COMMANDS = (apply_command, export_command, schema_command, import_group)


def _report_import(found: Imported, output: TextIO | None, templates: TextIO | None) -> None:
    _write(found.schedules_text(), output)
    fragment = found.templates_text()
    if templates is not None:
        _write(fragment, templates)
    elif fragment:
        echo("# What pgcron-ha.toml of the nodes needs:\n#")
        for line in fragment.splitlines():
            echo(f"# {line}".rstrip())
    for where, what in found.losses:
        echo(f"{where}: {what}", err=True)
    echo(f"{plural(len(found.definitions), 'schedule')} carried over", err=True)
