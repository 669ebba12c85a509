"""What the tables say when all is over, as one JSON file; instants are seconds since the epoch."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.chaos.stage import Connection

_TABLES = {
    "live": "SELECT * FROM pgcron.run",
    "ended": "SELECT * FROM pgcron.history UNION ALL SELECT * FROM pgcron.history_overflow",
    "attempts": "SELECT * FROM pgcron.attempt",
    "occurrences": "SELECT * FROM pgcron.occurrence",
    "missed": "SELECT * FROM pgcron.missed",
    "versions": "SELECT * FROM pgcron.schedule_version ORDER BY at, version",
    "cursors": "SELECT c.*, s.name, s.created_at FROM pgcron.cursor c"
    " JOIN pgcron.schedule s ON s.id = c.schedule_id",
    "letters": "SELECT run_id, outcome, redriven_as FROM pgcron.dead_letter",
    "keys": "SELECT * FROM pgcron.idempotency",
    "nodes": "SELECT * FROM pgcron.node",
    "effects": "SELECT * FROM public.effect",
    "workflows": "SELECT w.run, w.definition, w.started_at, w.ended_at, w.outcome, w.stopping,"
    " w.stop_reason, w.redrive_of, w.look_at, d.name, d.parallelism FROM pgcron.workflow_run w"
    " JOIN pgcron.workflow_definition d ON d.id = w.definition",
    "steps": "SELECT workflow, number, item, definition, run, state, turns, items, items_failed,"
    " ended_at, reason FROM pgcron.step",
    "defined": "SELECT definition, number, name, kind, phase, handler, rule, is_optional,"
    " max_parallel, tolerate, repeat_at_most FROM pgcron.workflow_step",
    "edges": "SELECT * FROM pgcron.workflow_edge",
    "outbox": "SELECT id, workflow FROM pgcron.step_outbox",
    "wrong": "SELECT * FROM pgcron.check_workflows()",
}
_LEFT_OUT = {"error", "traceback", "result", "last_error", "uuid"}


async def dump(connection: Connection, path: Path) -> None:
    """Every table that a checker reads."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, query in _TABLES.items():
        rows = await connection.fetch(query, timeout=60)
        found[name] = [
            {key: _plain(value) for key, value in row.items() if key not in _LEFT_OUT}
            for row in rows
        ]
    path.write_text(json.dumps(found))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    return value
