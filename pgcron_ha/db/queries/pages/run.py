"""What the page of one run asks: the statements of ``sql/pages_run.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.fetching import Row, fetch, fetch_one

# Characters of args and of a result that are read; the rest is told by its size.
MOST_JSON: Final = 20_000
# A run is tried up to a hundred times; what came before the newest is rarely asked for.
ATTEMPTS: Final = 30
# Characters of an attempt's error and of its traceback.
MOST_TEXT: Final = 8_000
CHILDREN: Final = 20
# Nobody makes more of one run by hand, and no page sorts more.
CHILDREN_LOOK: Final = 1_000
LINES: Final = 500
# Characters of one line; a whole page of such lines is still a page.
MOST_LINE: Final = 2_000
# Above every number of an attempt or a line.
HIGHEST: Final = 2**31 - 1


async def run(connection: Any, run_id: int, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """Everything about one run; `args` and `result` are JSON text of at most `MOST_JSON`
    characters, `args_bytes` and `result_bytes` their whole size, `timeout` is in seconds, `retry`
    is its policy's JSON text or None.

    ``place`` is 1 for a live run, 2 or 3 for an ended one, 4 for a dead letter whose history is
    gone; then `due_at`, `created_at` and `max_attempts` may be None.
    """
    return await fetch_one(connection, "page_run", schema, run_id=run_id, most=MOST_JSON)


async def waits_for(connection: Any, run_id: int, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """What may keep a waiting run from starting: pauses, nodes, the holder of its slot, and the
    limits of its lane and queue (``*_next_at``: when a rate lets the next one start).
    """
    return await fetch_one(connection, "page_run_waits_for", schema, run_id=run_id)


async def progress(connection: Any, run_id: int, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """What the attempt under way last said of how far it is."""
    return await fetch_one(connection, "page_run_progress", schema, run_id=run_id)


async def letter(connection: Any, run_id: int, *, schema: str = DEFAULT_SCHEMA) -> Row | None:
    """Its dead letter, if it has one."""
    return await fetch_one(connection, "page_run_letter", schema, run_id=run_id)


async def children(connection: Any, run_id: int, *, schema: str = DEFAULT_SCHEMA) -> list[Row]:
    """Runs made from it, the newest first."""
    return await fetch(
        connection,
        "page_run_children",
        schema,
        run_id=run_id,
        look=CHILDREN_LOOK,
        limit=CHILDREN,
    )


async def attempts(
    connection: Any, run_id: int, *, limit: int = ATTEMPTS, schema: str = DEFAULT_SCHEMA
) -> list[Row]:
    """Its attempts that did not succeed, the newest first."""
    return await fetch(
        connection, "page_run_attempts", schema, run_id=run_id, most=MOST_TEXT, limit=limit
    )


async def lines_before(
    connection: Any,
    run_id: int,
    line: tuple[int, int] = (HIGHEST, HIGHEST),
    *,
    limit: int = LINES,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """The last lines before one (attempt, sequence), in order."""
    found = await fetch(
        connection,
        "page_lines_before",
        schema,
        run_id=run_id,
        attempt=line[0],
        sequence=line[1],
        most=MOST_LINE,
        limit=limit,
    )
    return found[::-1]


async def lines_after(
    connection: Any,
    run_id: int,
    line: tuple[int, int] = (0, 0),
    *,
    limit: int = LINES,
    most: int = MOST_LINE,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """The first lines after one (attempt, sequence), in order."""
    return await fetch(
        connection,
        "page_lines_after",
        schema,
        run_id=run_id,
        attempt=line[0],
        sequence=line[1],
        most=most,
        limit=limit,
    )
