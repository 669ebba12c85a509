"""What schedules were: their versions, the way back, and whose schedule an edit changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pgcron_ha.db.driver import asking
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.overview import Row, fetch_rows
from pgcron_ha.errors import NotFound

MOST_VERSIONS: Final = 200
"""Of each schedule are kept; those of a deleted one as long as its ledger."""

_WARNING: Final = "01PC1"


class Restored(NamedTuple):
    """The schedule's id (another one if it had been deleted), its new version, and its note."""

    schedule_id: int
    version: int
    note: str


async def restore_schedule(
    connection: Any,
    name: str,
    version: int,
    *,
    expected_version: int | None = None,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> Restored:
    """Makes an earlier version the next one, of a deleted schedule too. NotFound, VersionConflict.

    The name, the owner and a pause stay as they are; `expected_version` as in `put_schedule`.
    """
    values = {
        "name": name,
        "version": version,
        "actor": actor,
        "interface": interface,
        "expected_version": expected_version,
    }
    return Restored(*await asking.row(connection, schema, "restore_schedule", **values))


async def edit_schedule(
    connection: Any,
    name: str,
    changes: str,
    *,
    expected_version: int | None = None,
    note: str | None = None,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """Changes columns of a schedule, given as a JSON object (null: the default); its version.

    The `note` is kept with the version. NotFound, VersionConflict, InvalidInput.
    """
    values = {
        "name": name,
        "changes": changes,
        "expected_version": expected_version,
        "note": note,
        "actor": actor,
        "interface": interface,
    }
    version: int = await asking.value(connection, schema, "edit_schedule", **values)
    return version


async def written_schedule(
    connection: Any, name: str, *, schema: str = DEFAULT_SCHEMA
) -> Row | None:
    """Every column of a schedule as people wrote it; None: there is none of that name."""
    found = await fetch_rows(connection, "written_schedule", schema, name=name)
    return found[0] if found else None


async def written_version(
    connection: Any, name: str, version: int, *, schema: str = DEFAULT_SCHEMA
) -> Row | None:
    """As `written_schedule`, of an earlier version; None: it is not kept."""
    found = await fetch_rows(connection, "written_version", schema, name=name, version=version)
    return found[0] if found else None


async def schedule_versions(
    connection: Any,
    name: str,
    *,
    before: int | None = None,
    limit: int = MOST_VERSIONS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """The versions of the schedule that is, or was last, called so; newest first. NotFound.

    `content` has all columns as they stood, `operation` is create, edit or delete.
    """
    found = await fetch_rows(
        connection, "schedule_versions", schema, name=name, before=before, limit=limit
    )
    if not found and before is None:
        raise NotFound(
            f"schedule '{name[:200]}' does not exist",
            "Nor is anything left of a deleted one that was called so; what is, is found by its"
            " last name.",
            "`pgcron-ha schedules list` lists those that exist.",
        )
    return found


async def last_definition(connection: Any, name: str, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """The columns of the schedule of that name, or as it was when it was deleted. NotFound."""
    (newest,) = await schedule_versions(connection, name, limit=1, schema=schema)
    content: Row = newest["content"]
    return content


def on_warning(connection: Any, report: Callable[[str, str, str], None]) -> None:
    """From now on `tell(message, detail, hint)` hears the warnings that our SQL functions give.

    They come a turn of the event loop after the statement. For asyncpg's connections.
    """

    def heard(_: object, reported: Any) -> None:
        if reported.sqlstate == _WARNING:
            report(reported.message, reported.detail or "", reported.hint or "")

    connection.add_log_listener(heard)
