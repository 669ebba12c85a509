"""Versions of schedules: listing them, restoring them, and edits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import NO_SCHEDULE, Row
from pgcron_ha.db.queries.rows import Rows
from pgcron_ha.errors import NotFound

edit_schedule: Final = Call[int]("edit_schedule", "schedule", "changes")
"""Changes columns of a schedule, given as a JSON object (null: the default); its version.

The `note` is kept with the version. NotFound, VersionConflict, InvalidInput.
"""

written_schedule: Final = Rows("written_schedule", "name").existing(*NO_SCHEDULE)
"""Every column of a schedule as people wrote it, its ``watermark`` and ``runs_made``. NotFound."""

written_version: Final = Rows("written_version", "name", "version").one
"""The columns of an earlier version as people wrote it; None: it is not kept."""

restore_schedule: Final = Rows("restore_schedule", "schedule", "version").the
"""Makes an earlier version the next one, of a deleted schedule too. NotFound, VersionConflict.

The name, what manages it and a pause stay as they are; `expected_version` as in `put_schedule`.
``schedule_id`` is another one if it had been deleted; its new ``version``, and the ``note`` of it.
"""

# So many are kept of each schedule; those of a deleted one as long as its ledger.
_schedule_versions: Final = Rows("schedule_versions", "name", limit=200)


async def schedule_versions(connection: Any, name: str, **options: Any) -> list[Row]:
    """The versions (`before` one of them) of the schedule that has, or last had, this name; newest
    first. NotFound.

    `content` has all columns of that version, `operation` is create, edit or delete.
    """
    found = await _schedule_versions(connection, name, **options)
    if not found and options.get("before") is None:
        raise NotFound(
            f"schedule '{name[:200]}' does not exist",
            "No deleted schedule had this name either. Look for a renamed one by its last name.",
            "`pgcron-ha schedules list` lists those that exist.",
        )
    return found


async def last_definition(connection: Any, name: str, **options: Any) -> Row:
    """The columns of the schedule of that name, or its last ones if it is deleted. NotFound."""
    (newest,) = await schedule_versions(connection, name, limit=1, **options)
    content: Row = newest["content"]
    return content


def on_warning(connection: Any, report: Callable[[str, str, str], None]) -> None:
    """Call `report(message, detail, hint)` for each warning of our SQL functions from now on.

    Each call comes one turn of the event loop after the statement. For asyncpg connections.
    """

    def heard(_: object, reported: Any) -> None:
        if reported.sqlstate == "01PC1":
            report(reported.message, reported.detail or "", reported.hint or "")

    connection.add_log_listener(heard)
