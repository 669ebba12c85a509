"""``pgcron-ha migrate``: bring the schema up to this version, print how, or only look."""

from __future__ import annotations

import asyncio

import click

from pgcron_ha.cli.arguments import flag, option
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo, echo_file, note
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.revision import NEWEST, is_newer, too_old
from pgcron_ha.errors import DatabaseUnavailable, Refused


@click.command("migrate")
@flag("--sql", "Print the statements instead; for a DBA.")
@option(
    "--from REVISION",
    "With --sql: the revision that the database has, or 'base' (empty). Default: read it.",
    into="since",
)
@flag("--check", "Only look; exit 1 if it is older.")
@flag("--uninstall", "Remove all of it, with --yes.")
@flag("--yes", "With --uninstall: do it.")
@flag(
    "--force", "With --uninstall: despite nodes, what others have built on it, and their alembic."
)
def migrate_command(
    sql: bool, since: str | None, check: bool, uninstall: bool, yes: bool, force: bool
) -> None:
    """Bring the schema up to this version. Safe to repeat and to run at once from many places.

    Nodes of the version before and of this one work with either schema: migrate first and then
    replace the nodes one by one, or the other way round. --check exits with 0 where the schema is
    as this version brings it, or newer.

    With --uninstall remove everything of it from the database instead: schedules, runs, history.
    Roles stay, and so does a schema that was there before.
    """
    if check + uninstall + sql > 1:
        raise click.UsageError("--check, --uninstall and --sql exclude each other")
    if since is not None and not sql:
        raise click.UsageError("--from belongs to --sql")
    if (yes or force) and not uninstall:
        raise click.UsageError("--yes and --force belong to --uninstall")
    settings = command_context().load()
    # Alembic takes a quarter of a second to import, and only this command needs it.
    from pgcron_ha.db.schema import migrate as schema

    if uninstall:
        _uninstall(settings, yes, force)
    elif sql:
        echo_file(_script(settings, since) + "\n")
    else:
        dsn = settings.required_dsn()
        if not check:
            asyncio.run(schema.migrate(dsn, settings.schema))
        echo(_judged(settings.schema, asyncio.run(schema.check(dsn, settings.schema))))


def _script(settings: Settings, since: str | None) -> str:
    from pgcron_ha.db.schema import migrate as schema

    if since is None and settings.dsn is not None:
        try:
            since = asyncio.run(schema.check(settings.dsn, settings.schema))
        except DatabaseUnavailable as error:
            note(f"{error.message}; --from says where to begin, else this is all of it")
    since = since or schema.BASE
    if since == NEWEST or is_newer(since, NEWEST):
        return f"-- schema '{settings.schema}' is at revision {since}: nothing is missing"
    return f"-- from {since} to {NEWEST}\n" + schema.as_sql(settings.schema, since)


def _uninstall(settings: Settings, is_sure: bool, by_force: bool) -> None:
    from pgcron_ha.db.schema.uninstall import uninstall

    if not is_sure:
        raise Refused(
            f"schema '{settings.schema}' is to be removed, with all schedules, runs and history",
            "Only a copy of the database brings them back.",
            "Say --yes to do it; pg_dump --schema makes a copy.",
        )
    removed = asyncio.run(uninstall(settings.required_dsn(), settings.schema, by_force=by_force))
    echo(f"schema '{settings.schema}' " + ("is removed" if removed else "is not in this database"))


def _judged(name: str, found: str | None) -> str:
    """What there is, if this program works with it to the full; raises SchemaError if not."""
    reported = f"schema '{name}' is at revision {found}"
    if found == NEWEST:
        return reported
    if is_newer(found, NEWEST):
        return f"{reported}; this program brings {NEWEST}, and works with it"
    raise too_old(name, found, NEWEST)
