"""``schedules apply``, ``export`` and ``schema``: schedules, and calendars, as YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import echo, echo_file, print_json, shown
from pgcron_ha.cli.session import Session, on_database, with_session
from pgcron_ha.db.commands import calendars as calendar_commands
from pgcron_ha.db.commands import schedule_files as interfaces
from pgcron_ha.db.driver.clients import tried
from pgcron_ha.errors import InvalidInput, NotFound
from pgcron_ha.model.differences import changes
from pgcron_ha.schedule_files.definitions import POLICIES, Definitions, files_of, read_definitions
from pgcron_ha.schedule_files.json_schema import json_schema
from pgcron_ha.schedule_files.writing import as_yaml, definition_of

_SIGNS = {"added": "+", "changed": "~", "pruned": "-"}
_MOST_CHARACTERS = 200
_MOST_LINES = 40
_REPORTED = ("spec", "handler", *POLICIES, "managed_by", "source")


Applied = tuple[
    list[calendar_commands.AppliedCalendar], list[interfaces.AppliedSchedule], interfaces.Row
]
"""Calendars, schedules, and what a schedule is of which nothing is said."""


@click.command("apply", short_help="Make schedules what a file or a folder says.")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--source", metavar="NAME", help="Who owns them; without it PATH's own name.")
@click.option("--prune", is_flag=True, help="Delete what the source owns and no longer defines.")
@click.option("--take-over", is_flag=True, help="Also schedules that another source owns.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@arguments.json_option
def apply_command(
    path: Path, source: str | None, prune: bool, take_over: bool, dry_run: bool, as_json: bool
) -> None:
    """Make schedules and calendars what the file PATH, or the files of the folder PATH, say.

    All of them or none, in one transaction. What a definition leaves out is its default; whether a
    schedule is paused is left alone unless the file says "enabled". A dry run does everything and
    takes it back, so that it shows what the database says, too.
    """
    definitions = read_definitions(files_of(path))
    owner = path.resolve().stem if source is None else source
    if prune and not definitions.schedules and not definitions.calendars:
        raise InvalidInput(
            f"{path} defines no schedule",
            f"Pruning would delete everything that the source '{owner}' owns.",
            "Name the right files; `pgcron-ha schedules delete` deletes a schedule.",
        )
    apply_definitions(
        definitions, owner, prune=prune, take_over=take_over, dry_run=dry_run, as_json=as_json
    )


def apply_definitions(
    definitions: Definitions,
    source: str,
    *,
    prune: bool = False,
    take_over: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
) -> None:
    """Apply them and print what changes; a refusal names the schedule that is at fault."""

    async def put(session: Session) -> Applied:
        async with tried(session.connection, keep=not dry_run):
            calendars, applied = await _apply(session, definitions, source, prune, take_over)
        return calendars, applied, await session.call(interfaces.default_schedule)

    calendars, applied, default = on_database(put)
    _print_calendar_changes(calendars, source, as_json=as_json)
    _print_changes(applied, default, as_json)
    if as_json:
        return
    if calendars:
        echo(f"calendars: {_counted([one.change for one in calendars])}")
    echo(_counted([one.change for one in applied]) or "no schedules")
    if dry_run:
        echo("nothing is changed: this was a dry run")


async def _apply(
    session: Session, definitions: Definitions, source: str, prune: bool, take_over: bool
) -> tuple[list[calendar_commands.AppliedCalendar], list[interfaces.AppliedSchedule]]:
    """Calendars first; what is pruned goes in the other order."""
    schedules = [{"name": name, **values} for name, values in definitions.schedules.items()]
    contents = definitions.calendars
    calendars: list[calendar_commands.AppliedCalendar] = []
    if contents:
        names = list(definitions.schedules)
        calendars = await session.act(
            calendar_commands.apply_calendars,
            contents,
            source,
            take_over=take_over,
            schedules=names,
        )
    applied = await session.act(
        interfaces.apply_schedules, schedules, source, prune=prune, take_over=take_over
    )
    if prune:
        calendars += await session.act(calendar_commands.prune_calendars, source, list(contents))
    return calendars, applied


def _print_changes(
    applied: Sequence[interfaces.AppliedSchedule], default: interfaces.Row, as_json: bool
) -> None:
    if as_json:
        for one in applied:
            print_json(
                {"schedule": one.name, "change": one.change, "columns": _columns(one, default)}
            )
        return
    for one in applied:
        if one.change in _SIGNS:
            echo(f"{_SIGNS[one.change]} {one.name}")
            for column, (before, after) in _columns(one, default).items():
                was = "" if one.previous is None else f"{_short(before)} → "
                echo(f"    {column}: {was}{_short(after)}")
        if one.previous is not None and one.previous["managed_by"] == "code":
            echo(
                f"warning: schedule '{one.name}' was managed by the code of an application\n"
                "  The next start of a node with that application takes it back.",
                err=True,
            )


@click.command("export", short_help='Print schedules as a file for "apply".')
@click.argument("names", nargs=-1)
@click.option("--source", metavar="NAME", help="Those of a source.")
@click.option(
    "--calendars",
    type=click.Choice(["used", "all", "none"]),
    default="used",
    show_default=True,
    help="Those that the schedules use (and the source owns), all, or none.",
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of stdout."
)
@with_session
async def export_command(
    session: Session,
    names: tuple[str, ...],
    source: str | None,
    calendars: str,
    output: Path | None,
) -> None:
    """Print schedules as a file that "apply" takes: all, or those of these names.

    Only what is not a default is written.
    """
    rows = await session.call(interfaces.schedules_to_export, names or None, source)
    used = {name for row in rows for name in json.loads(row["calendars"] or "{}")}
    contents: dict[str, str] = {}
    if calendars != "none":
        chosen = None if calendars == "all" else sorted(used)
        contents = await session.call(calendar_commands.calendars_to_export, chosen, source)
    default = await session.call(interfaces.default_schedule)
    missing = sorted(set(names) - {row["name"] for row in rows})
    if missing:
        raise NotFound(
            f"schedule '{missing[0][:200]}' does not exist",
            "A schedule is named exactly as it was created.",
            "`pgcron-ha schedules list` lists them.",
        )
    text = as_yaml({row["name"]: definition_of(row, default) for row in rows}, contents)
    print_or_write(text, output)


@click.command("schema", short_help="Print the JSON Schema of a file of schedules.")
def schema_command() -> None:
    """Print the JSON Schema of a file of schedules, for editors and checks."""
    echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def print_or_write(text: str, path: Path | None) -> None:
    """To stdout without a path; raises InvalidInput when the file can't be written."""
    if path is None:
        echo_file(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{path} can't be written", f"{error}.", "Name a file that you may write."
        ) from None


def _columns(
    one: interfaces.AppliedSchedule, default: interfaces.Row
) -> dict[str, tuple[Any, Any]]:
    """What differs, old and new; a new schedule differs from the defaults."""
    if one.content is None:
        return {}
    return {
        change.column: (change.before, change.after)
        for change in changes(one.previous or default, one.content)
        if change.column in _REPORTED
    }


def _short(value: object) -> str:
    text = " ".join(shown(value).split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _print_calendar_changes(
    applied: Sequence[calendar_commands.AppliedCalendar], source: str, *, as_json: bool
) -> None:
    """Each that is not as it was, with its lines that are new or gone."""
    for one in applied:
        if as_json:
            lines = list(_changed_lines(one))
            print_json({"calendar": one.name, "change": one.change, "lines": lines})
        elif one.change in _SIGNS:
            _print_calendar_change(one, source)


def _counted(changes: Sequence[str]) -> str:
    """``2 added, 1 unchanged``; empty if there is nothing."""
    counts = {word: changes.count(word) for word in ("added", "changed", "unchanged", "pruned")}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _print_calendar_change(one: calendar_commands.AppliedCalendar, source: str) -> None:
    echo(f"{_SIGNS[one.change]} calendar {one.name}")
    if one.change == "pruned":
        return
    if one.change == "changed" and one.source_before != source:
        echo(f"    source: {one.source_before or '-'} → {source}")
    lines = list(_changed_lines(one))
    for line in lines[:_MOST_LINES]:
        echo(f"    {line}")
    if len(lines) > _MOST_LINES:
        echo(f"    and {len(lines) - _MOST_LINES} more lines")
    if one.change == "changed" and lines and one.users:
        echo(f"    used by {one.users} schedule{'s'[: one.users > 1]}")


def _changed_lines(one: calendar_commands.AppliedCalendar) -> Iterator[str]:
    before, after = (_lines(text) for text in (one.before, one.after))
    for line in islice(unified_diff(before, after, n=0, lineterm=""), 2, None):
        if not line.startswith("@@"):
            yield f"{line[0]} {line[1:]}"


def _lines(text: str | None) -> list[str]:
    return (text or "").rstrip(" \t\r\n").split("\n") if (text or "").strip() else []
