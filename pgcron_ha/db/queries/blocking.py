"""Sessions that keep nodes waiting for a lock: read on request, from the catalogs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pgcron_ha.db.queries.rows import Row, Rows
from pgcron_ha.errors import PgcronError

# None of our statements holds such a lock, or waits for one, for a second.
blocking_sessions: Final = Rows("list_blocking_sessions", seconds=1.0, limit=10)
"""Sessions that block nodes, or would: process_id (0: a prepared transaction), user, application,
seconds of its transaction (None: not shown to this role), tables it has locked, how many sessions
are waiting, state, statement.
"""


def session_words(row: Row) -> str:
    """Which session it is, for people."""
    if row["process_id"] == 0:
        return "a prepared transaction (pg_prepared_xacts)"
    about = ", ".join(f"{name} {row[name]}" for name in ("user", "application") if row[name])
    return f"session {row['process_id']}" + (f" ({about})" if about else "")


def holding_words(row: Row) -> str:
    """What it does."""
    since = f" for {row['seconds']:.0f} s" if row["seconds"] is not None else ""
    what = f"holds a lock on {row['tables']}" if row["tables"] else "holds locks"
    idle = ", idle in its transaction" if (row["state"] or "").startswith("idle in") else ""
    waiting = row["waiting"]
    wait = f"; {waiting} {'session waits' if waiting == 1 else 'sessions wait'} for it"
    return f"{what}{since}{idle}{wait if waiting else ''}"


def naming(error: PgcronError, rows: Sequence[Row]) -> PgcronError:
    """The error, naming the sessions that may be its cause."""
    if not rows:
        return error
    names = "; ".join(f"{session_words(row)} {holding_words(row)}" for row in rows)
    return type(error)(f"{error.message}: {names}", error.detail, error.hint)
