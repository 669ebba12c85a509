"""``pgcron-ha migrate``: bring the schema up to this version, print how, or only look."""

from __future__ import annotations

import asyncio

import click

from pgcron_ha.cli.context import pass_settings
from pgcron_ha.config import Settings
from pgcron_ha.errors import SchemaError


@click.command("migrate")
@click.option("--sql", "as_sql", is_flag=True, help="Print the statements instead; for a DBA.")
@click.option("--check", "only_check", is_flag=True, help="Only look; exit 1 if it is not there.")
@pass_settings
def migrate_command(settings: Settings, as_sql: bool, only_check: bool) -> None:
    """Bring the schema up to this version. Safe to repeat and to run at once from many places."""
    # Alembic takes a quarter of a second to import, and only this command needs it.
    from pgcron_ha.db import schema

    if as_sql and only_check:
        raise click.UsageError("--sql and --check exclude each other")
    if as_sql:
        click.echo(schema.as_sql(settings.schema))
        return
    dsn = settings.required_dsn()
    if only_check:
        found, head = asyncio.run(schema.check(dsn, settings.schema))
        _require(settings.schema, found, head)
    else:
        asyncio.run(schema.migrate(dsn, settings.schema))
    click.echo(f"schema '{settings.schema}' is at revision {schema.head()}")


def _require(name: str, found: str | None, head: str) -> None:
    if found == head:
        return
    if found is not None and found > head:
        raise SchemaError(
            f"schema '{name}' is at revision {found}",
            f"This program knows revisions up to {head}.",
            "Use the version of pgcron_ha that made it, or a newer one.",
        )
    raise SchemaError(
        f"schema '{name}' is "
        + ("not in this database" if found is None else f"at revision {found}"),
        f"This program brings revision {head}.",
        "Run `pgcron-ha migrate`, or give a DBA the output of `pgcron-ha migrate --sql`.",
    )
