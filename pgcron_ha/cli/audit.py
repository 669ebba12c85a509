"""``pgcron-ha audit``: who did what."""

from __future__ import annotations

from typing import Any

import click

from pgcron_ha.cli.arguments import INSTANT, JsonGroup, limit_option, option
from pgcron_ha.cli.output import columns, print_json, print_rows
from pgcron_ha.cli.session import Session, call
from pgcron_ha.db.queries.audit import WORDS, audited, change_words, exported
from pgcron_ha.db.queries.rows import Row


def _changes(row: Row) -> str | None:
    words = (f"{key}: {before or '-'} > {after or '-'}" for key, before, after in change_words(row))
    return ", ".join(words) or None


COLUMNS = columns(
    "ID AT ACTOR:24 LOGIN:16 THROUGH=interface VERB KIND NAME:30 CHANGE:60 NOTE:30 OUTCOME",
    CHANGE=_changes,
)


@click.group("audit", cls=JsonGroup)
def audit_group() -> None:
    """List and export who did what."""


@audit_group.command("list")
@option("--since", "Not before: 2h (ago), 18:30, ISO.", INSTANT)
@option("--until", "Only before: 2h (ago), 18:30, ISO.", INSTANT)
@option("--actor", "By this actor, as the interface named it.")
@option("--login", "By this role of the database.")
@option("--verb", "What was done: cancel, pause, edit, …")
@option("--kind KIND", "To what: run, schedule, queue, …", WORDS["kind"])
@option("--name", "Its name; of a run its number.")
@option("--outcome", "Whether it was done.", WORDS["outcome"])
@option("--interface", "Through what: cli, ui, code, file, sql, …")
@limit_option()
def list_command(**given: Any) -> None:
    """List who did what, the newest first.

    Looks at the newest 20,000, and with --name at as many of that name.
    """
    print_rows(call(audited, **given).rows, COLUMNS, "nothing")


@audit_group.command("export")
@option("--after", "Only rows after this one: the last of the export before.", int)
async def export_command(session: Session, after: int | None) -> None:
    """Print all rows as JSON lines, the oldest first.

    It ends before a row that a transaction which is still open might precede: what comes after it
    is exported the next time, and no row is left out.
    """
    async for rows in exported(session.connection, after or 0, schema=session.schema):
        for row in rows:
            print_json(row)
