"""A workflow of every kind of step, as far as it has come, and one of many steps."""

from __future__ import annotations

import json
from typing import Any

from tests.db.control import Connection, join
from tests.db.workflows import Stage

HANDLERS = ("extract", "resize", "check", "load", "report", "refund", "cleanup")
ETL: dict[str, Any] = {
    "description": "Nightly load with a quality gate",
    "on_failure": "continue",
    "timeout": "8 hours",
    "steps": [
        {"name": "extract", "handler": "py:extract", "args_from": {"day": "$.args.day"}},
        {
            "name": "resize",
            "handler": "py:resize",
            "for_each": "$.extract.files",
            "tolerate": 2,
            "after": "extract",
        },
        {"name": "check", "handler": "py:check", "after": "extract", "optional": True},
        {"name": "quality", "wait_for": "approval", "deadline": "24 h", "after": "check"},
        {"name": "load", "handler": "py:load", "after": ["resize", "quality"]},
        {"name": "report", "handler": "py:report", "after": "load", "rule": "all_ended"},
        {"name": "undo_load", "handler": "py:refund", "compensates": "load"},
        {"name": "cleanup", "handler": "py:cleanup", "finally": True},
    ],
}


async def stage_of(connection: Connection) -> Stage:
    """One node that may execute the steps of `ETL`."""
    handlers = [f"py:{name}" for name in HANDLERS]
    return Stage(connection, await join(connection, handlers=[*handlers, "workflow:etl"]))


async def put(stage: Stage, name: str, definition: dict[str, Any]) -> None:
    query = "SELECT pgcron.put_workflow($1, $2)"
    await stage.connection.execute(query, name, json.dumps(definition))


async def begin_etl(connection: Connection) -> tuple[Stage, int]:
    """A run of the workflow ``etl``: one has succeeded, and in the one that is given the approval
    is waited for, of three items one has failed, and the others execute.
    """
    stage = await stage_of(connection)
    await put(stage, "etl", ETL)
    done = await stage.start("etl", {"day": 1})
    await stage.work({"extract": {"files": ["a"]}})
    await connection.execute("SELECT pgcron.approve_step($1, 'quality', actor => 'ana')", done)
    await stage.advance()
    await stage.work()
    run = await stage.start("etl", {"day": 2})
    await stage.turn({"extract": {"files": ["a", "b", "c"]}})
    await stage.turn({"check": ValueError("the sums differ")})
    return stage, run
