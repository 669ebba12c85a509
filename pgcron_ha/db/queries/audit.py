"""Who did what: the statements of ``sql/audit.sql``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT, LOOK
from pgcron_ha.db.queries.pages.runs import FAR_AHEAD, HIGHEST_ID, LONG_AGO
from pgcron_ha.db.queries.rows import BoundedPage, Row, Rows

FILTERS: Final = ("actor", "login", "verb", "kind", "name", "outcome", "interface")
"""Each is a column, and a whole value of it."""

WORDS: Final[dict[str, tuple[str, ...]]] = {
    "kind": (
        *("account", "audit", "backfill", "breaker", "breaker_handler", "calendar", "cluster"),
        *("concurrency", "dead letter", "key", "metric", "node", "occurrence", "overview"),
        *("password", "producer", "queue", "retention", "role", "run", "schedule", "session"),
        *("step", "storage", "table_retention", "token", "user", "workflow"),
    ),
    "outcome": ("done", "refused"),
}
"""All values that these columns have."""

_audited: Final = Rows("audited")
_audit_after: Final = Rows("audit_after", "after", "settled", at_most=500)
settle: Final = Call[int]("settle_audit")
"""Up to which row the audit is complete: no transaction that is open can add one before it."""

unsent: Final = Call[int]("audit_unsent")
"""How many rows the webhook has still to get; 0 if there was never one."""


async def audited(
    connection: Any,
    *,
    begin: tuple[datetime, int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = DEFAULT_LIMIT,
    **options: Any,
) -> BoundedPage[tuple[datetime, int]]:
    """What was recorded since and before two instants, from `begin` downwards; `options` are those
    of `FILTERS`, too.
    """
    at, number = begin or (until or FAR_AHEAD, 0 if until else HIGHEST_ID)
    # Without a filter but the name, which has an index, every row that is looked at is shown.
    is_filtered = any(options.get(name) is not None for name in FILTERS if name != "name")
    look = LOOK if is_filtered else limit + 1
    options |= {"since": since or LONG_AGO, "limit": limit + 1, "look": look}
    found = await _audited(connection, before_at=at, before=number, **options)
    first = found[0]
    columns = list(first)[3:]  # behind those that say how far was looked
    rows = [{name: row[name] for name in columns} for row in found if row["id"] is not None]
    following = None
    if len(rows) > limit:
        following = rows[limit - 1]["at"], rows[limit - 1]["id"]
    elif first["looked"] >= look:
        following = first["floor_at"], first["floor"]
    is_stopped = len(rows) <= limit and bool(following)
    return BoundedPage(rows[:limit], following, first["looked"], is_stopped=is_stopped)


async def exported(connection: Any, after: int, **options: Any) -> AsyncIterator[list[Row]]:
    """All rows after the one of this number as far as the audit is complete, in their order, some
    at a time.
    """
    settled = await settle(connection, **options)
    while rows := await _audit_after(connection, after, settled, **options):
        yield rows
        after = rows[-1]["id"]


def change_words(row: Row) -> list[tuple[str, str | None, str | None]]:
    """What changed: each value that differs, as text before and after; None: there was none."""
    before, after = row["before"] or {}, row["after"] or {}
    return [
        (key, _text(before.get(key)), _text(after.get(key)))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
