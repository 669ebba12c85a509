"""What the pages of schedules ask: the statements of ``sql/pages_schedules.sql``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one

PAGE_ROWS: Final = 50
# What health and trend are judged from.
LAST_RUNS: Final = 30
NAMES: Final = 200
NEAR_NAMES: Final = 8
MOST_IDS: Final = 500
# The schedules that were made last, among which the new ones are.
NEW_LOOK: Final = 5_000


async def schedules(
    connection: Any,
    *,
    ids: Sequence[int] | None = None,
    text: str | None = None,
    queue: str | None = None,
    enabled: bool | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Schedules by name, with the facts that health is judged from.

    `text` is any part of the name or handler, `after` the name before the first row. Arrays `ids`,
    `outcomes`, `finished`, `durations` (seconds, None: never started) and `errors` are the newest
    `LAST_RUNS` ended runs, newest first; None: there is none.
    """
    return await fetch(
        connection,
        "page_schedules",
        schema,
        ids=None if ids is None else list(ids),
        text=text,
        queue=queue,
        enabled=enabled,
        after=after,
        limit=limit,
        runs=LAST_RUNS,
    )


async def next_schedules(connection: Any, limit: int, *, schema: str = DEFAULT_SCHEMA) -> list[int]:
    """Ids of the schedules that fire next."""
    found = await fetch(connection, "page_next_schedules", schema, limit=limit)
    return [row["schedule_id"] for row in found]


async def new_schedules(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[int]:
    """Ids of enabled schedules that never ran, as far as history goes back, the newest first.

    Looks at the `NEW_LOOK` that were made last.
    """
    found = await fetch(connection, "page_new_schedules", schema, look=NEW_LOOK, limit=MOST_IDS)
    return [row["schedule_id"] for row in found]


async def near_names(connection: Any, text: str, *, schema: str = DEFAULT_SCHEMA) -> list[str]:
    """Names that are like one that does not exist."""
    found = await fetch(connection, "page_schedule_names", schema, text=text, limit=NEAR_NAMES)
    return [row["name"] for row in found]


async def queue_names(connection: Any, *, schema: str = DEFAULT_SCHEMA) -> list[str]:
    """The queues that schedules name."""
    found = await fetch(connection, "page_queue_names", schema, limit=NAMES)
    return [row["name"] for row in found]


async def offered(
    connection: Any,
    handler: str | None = None,
    queue: str | None = None,
    requires: Sequence[str] | None = None,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> Row:
    """What living nodes take: the first `NAMES` ``handlers`` and ``queues``, and ``is_served``:
    whether one of them takes the handler's runs from the queue, with these labels.
    """
    found = await fetch_one(
        connection,
        "page_offered",
        schema,
        handler=handler,
        queue=queue,
        requires=None if requires is None else list(requires),
        limit=NAMES,
    )
    assert found is not None  # it has no FROM
    return found


async def schedule(connection: Any, name: str, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """The definition of one schedule; durations in seconds, `args` as JSON text."""
    return await fetch_one(connection, "page_schedule", schema, name=name)


async def ledger(
    connection: Any,
    schedule_id: int,
    *,
    before: datetime | None = None,
    limit: int = PAGE_ROWS,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """Decided fires, and ranges of missed ones (`fires` None: too many to count), newest first."""
    return await fetch(
        connection, "page_ledger", schema, schedule_id=schedule_id, before=before, limit=limit
    )


async def schedule_runs(
    connection: Any, schedule_id: int, *, limit: int = PAGE_ROWS, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Live runs that are due, then ended ones, newest first; `seconds` and `delay` are numbers."""
    return await fetch(
        connection, "page_schedule_runs", schema, schedule_id=schedule_id, limit=limit
    )
