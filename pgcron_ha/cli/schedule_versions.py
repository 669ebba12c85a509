"""``schedules versions``, ``diff`` and ``restore``: what a schedule was, and the way back."""

from __future__ import annotations

from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import columns, echo, print_result, print_rows, shown
from pgcron_ha.cli.session import act, call
from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import NotFound
from pgcron_ha.model.differences import Change, changes

COLUMNS = columns(
    "VERSION AT BY:24 INTERFACE WHAT CHANGED:60 NOTE:60", BY="actor", WHAT="operation"
)


@click.command("versions", cls=arguments.JsonCommand)
@click.argument("name")
@arguments.limit_option(20)
def versions_command(name: str, limit: int) -> None:
    """List the versions of a schedule, newest first.

    A deleted schedule is found by its last name. The newest 200 versions are kept, those of a
    deleted schedule as long as its ledger.
    """
    found = call(ask.schedule_versions, name, limit=limit + 1)
    rows = [
        {**row, "changed": _changed(row, before)}
        for row, before in zip(found[:limit], [*found[1:], None], strict=False)
    ]
    print_rows(rows, COLUMNS, "no versions")


@click.command("diff", cls=arguments.JsonCommand)
@click.argument("name")
@click.argument("first", required=False, type=click.IntRange(1), metavar="[A]")
@click.argument("second", required=False, type=click.IntRange(1), metavar="[B]")
def diff_command(name: str, first: int | None, second: int | None) -> None:
    """Show what changed between two versions.

    From version A to version B of a schedule: B is the newest one if it is left out, A the one
    before B.
    """
    rows = {row["version"]: row for row in call(ask.schedule_versions, name)}
    newer = _version(name, rows, max(rows) if second is None else second)
    older = _version(name, rows, max(newer["version"] - 1, min(rows)) if first is None else first)
    differences = changes(older["content"], newer["content"])
    echo(f"--- version {older['version']}, {_who(older)}")
    echo(f"+++ version {newer['version']}, {_who(newer)}")
    for change in differences:
        print_result(change._asdict(), _lines(change))
    if not differences:
        echo("nothing differs")


@click.command("restore", cls=arguments.JsonCommand)
@click.argument("name")
@click.argument("version", type=click.IntRange(1))
@click.option("--expect-version", type=click.IntRange(0), help="Refuse if it has another one.")
def restore_command(name: str, version: int, expect_version: int | None) -> None:
    """Make an earlier version the next one.

    VERSION becomes the schedule's next one; a deleted schedule is created anew. Its name, what
    manages it and whether it is paused stay as they are.
    """

    done = act(
        ask.restore_schedule, name, version, expected_version=expect_version, interface="cli"
    )
    print_result(
        {"schedule": name, **done._asdict()},
        f"schedule '{name}' has version {done.version}: {done.note}",
    )


def _version(name: str, rows: dict[int, Row], version: int) -> Row:
    if version not in rows:
        raise NotFound(
            f"schedule '{name[:200]}' has no version {version}",
            f"Its versions {min(rows)} to {max(rows)} are kept.",
            f"`pgcron-ha schedules versions {name}` lists them.",
        )
    return rows[version]


def _changed(row: Row, before: Row | None) -> str | None:
    if before is None or row["operation"] == "delete":
        return None
    return ", ".join(one.column for one in changes(before["content"], row["content"])) or None


def _who(row: Row) -> str:
    note = f" ({row['note']})" if row["note"] else ""
    return f"{shown(row['at'])} by {row['actor']} through {row['interface']}{note}"


def _lines(change: Change) -> str:
    return f"{change.column}\n- {_text(change.before)}\n+ {_text(change.after)}"


def _text(value: Any) -> str:
    return shown(value).replace("\n", "\n  ")
