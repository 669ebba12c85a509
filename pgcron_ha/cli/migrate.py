"""``pgcron-ha migrate``: bring the schema up to this version, print how, or only look."""

from __future__ import annotations

import asyncio

import click

from pgcron_ha.cli.context import pass_settings
from pgcron_ha.config import Settings
from pgcron_ha.db.revision import is_newer
from pgcron_ha.errors import Refused, SchemaError


@click.command("migrate")
@click.option("--sql", "as_sql", is_flag=True, help="Print the statements instead; for a DBA.")
@click.option("--check", "only_check", is_flag=True, help="Only look; exit 1 if it is older.")
@click.option("--uninstall", "is_removal", is_flag=True, help="Remove all of it, with --yes.")
@click.option("--yes", "is_sure", is_flag=True, help="With --uninstall: do it.")
@click.option(
    "--force",
    "by_force",
    is_flag=True,
    help="With --uninstall: though nodes are alive, and with what others have built on it.",
)
@pass_settings
def migrate_command(
    settings: Settings,
    as_sql: bool,
    only_check: bool,
    is_removal: bool,
    is_sure: bool,
    by_force: bool,
) -> None:
    """Bring the schema up to this version. Safe to repeat and to run at once from many places.

    With --uninstall remove everything of it from the database instead: schedules, runs, history.
    Roles stay, and so does a schema that was there before.
    """
    # Alembic takes a quarter of a second to import, and only this command needs it.
    from pgcron_ha.db import schema

    if as_sql + only_check + is_removal > 1:
        raise click.UsageError("--sql, --check and --uninstall exclude each other")
    if (is_sure or by_force) and not is_removal:
        raise click.UsageError("--yes and --force belong to --uninstall")
    if is_removal:
        _uninstall(settings, is_sure, by_force)
        return
    if as_sql:
        click.echo(schema.as_sql(settings.schema))
        return
    dsn = settings.required_dsn()
    if not only_check:
        asyncio.run(schema.migrate(dsn, settings.schema))
    found, head = asyncio.run(schema.check(dsn, settings.schema))
    click.echo(_judged(settings.schema, found, head))


def _uninstall(settings: Settings, is_sure: bool, by_force: bool) -> None:
    from pgcron_ha.db.uninstall import uninstall

    if not is_sure:
        raise Refused(
            f"schema '{settings.schema}' is to be removed, with all schedules, runs and history",
            "Only a copy of the database brings them back.",
            "Say --yes to do it; pg_dump --schema makes a copy.",
        )
    removed = asyncio.run(uninstall(settings.required_dsn(), settings.schema, by_force=by_force))
    click.echo(
        f"schema '{settings.schema}' " + ("is removed" if removed else "is not in this database")
    )


def _judged(name: str, found: str | None, head: str) -> str:
    """What there is, if this program works with it to the full; raises SchemaError if not."""
    told = f"schema '{name}' is at revision {found}"
    if found == head:
        return told
    if is_newer(found, head):
        return f"{told}; this program brings {head}, and works with it"
    raise SchemaError(
        f"schema '{name}' is not in this database" if found is None else told,
        f"This program brings revision {head}.",
        "Run `pgcron-ha migrate`, or give a DBA the output of `pgcron-ha migrate --sql`.",
    )
