"""What the page of dead letters asks: the statements of ``sql/pages_dead_letters.sql``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one

# Causes are named from so many of the newest letters, and a filter searches no further at once.
LOOK: Final = 10_000
GROUPS: Final = 50
# The highest run numbers, among which the newest death is near enough.
LAST_LOOKED_AT: Final = 100
PAGE_ROWS: Final = 25
# What of an error and of args a page shows; the run's page shows more.
SHOWN_TEXT: Final = 2_000
# ``open``: not redriven; ``redriven``; or ``all``.
STATES: Final = ("open", "redriven", "all")


async def groups(
    connection: Any, filters: Mapping[str, str | None], *, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Letters by handler, error class and fingerprint, open first, then the newest.

    `filters`: ``state`` (of `STATES`), and what else a letter has to have: ``handler``,
    ``error_class`` ("" for none), ``fingerprint``, ``queue``, ``schedule``. `redrivable` ones are
    open and not lost. Counted among the newest `LOOK`.
    """
    return await fetch(
        connection, "page_letter_groups", schema, look=LOOK, limit=GROUPS, **_values(filters)
    )


async def letters(
    connection: Any,
    filters: Mapping[str, str | None],
    before: tuple[datetime, int] | None = None,
    *,
    limit: int = PAGE_ROWS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Letters one by one, newest first, after the one that died at an instant with a number.

    `redriven_state` is what came of the redriven (None: retention removed it). At most `LOOK`
    letters are searched.
    """
    at, number = before or (None, None)
    return await fetch(
        connection,
        "page_letters",
        schema,
        before_at=at,
        before_id=number,
        look=LOOK,
        text=SHOWN_TEXT,
        limit=limit,
        **_values(filters),
    )


async def counted(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """`open` letters (at most `LOOK` + 1 are counted), and when the newest of any died."""
    found = await fetch_one(
        connection, "page_letters_counted", schema, most=LOOK + 1, look=LAST_LOOKED_AT
    )
    return found or {"open": 0, "last_at": None}


def _values(filters: Mapping[str, str | None]) -> dict[str, str | None]:
    names = ("state", "handler", "error_class", "fingerprint", "queue", "schedule")
    return {name: filters.get(name) for name in names}
