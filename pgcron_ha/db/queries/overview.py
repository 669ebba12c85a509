"""Bounded, read-only lists for the command line, the demo and the client: ``sql/overview.sql``.

Every row is a dictionary of plain values: aware UTC datetimes, `UUID`, and JSON columns parsed.
`limit` is the most rows that come back. Errors are those of `pgcron_ha.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages.run import GONE, NO_RUN
from pgcron_ha.db.queries.pages.runs import (
    STATE_GROUPS,
    STATE_WORDS,
    Position,
    RunFilter,
    newest_runs,
    runs_of_schedule,
)
from pgcron_ha.db.queries.rows import Row as Row
from pgcron_ha.db.queries.rows import Rows

DEFAULT_LIMIT: Final = 50
# A filter that matches little is given up after this many rows: some tens of milliseconds.
LOOK: Final = 20_000
# Characters: more than any text has.
UNCUT: Final = 2**31 - 1
# Due runs that are counted when the demand is asked for: some milliseconds.
DEMAND_CAP: Final = 5000


attempts: Final = Rows("list_attempts", "run_id", most=UNCUT, limit=100)
"""The attempts of a run that did not succeed, the newest first."""

keys: Final = Rows("list_concurrency", limit=DEFAULT_LIMIT)
"""Keys that have a setting or run something; `slots` None is no limit."""

queues: Final = Rows("list_queues", limit=DEFAULT_LIMIT)
"""Queues that have settings or live runs, with counts."""

assets: Final = Rows("list_assets", limit=DEFAULT_LIMIT)
"""By name, with their last update and the schedules on them."""

schedules: Final = Rows("list_schedules", limit=DEFAULT_LIMIT)
"""Schedules by name, with next fire and last outcome; ``name`` is any part of it."""

database_time: Final = Call[datetime]("read_clock")
"""What the database's clock shows."""


NO_SCHEDULE: Final = (
    "schedule '{:.200}' does not exist",
    "A schedule is named exactly as it was created.",
    "`pgcron-ha schedules list` lists them.",
)

schedule: Final = Rows("one_schedule", "name").existing(*NO_SCHEDULE)
"""Everything about one schedule. NotFound."""

run: Final = Rows("one_run", "run_id").existing(*NO_RUN)
"""Everything about one run, alive or ended. NotFound."""

lines: Final = Rows(
    "list_lines", "run_id", after_attempt=0, after_sequence=-1, most=UNCUT, limit=1000
)
"""What a run printed (in one `attempt`), in order, after a line of an attempt."""

demand: Final = Call[int]("scale_demand", queue=None, at_most=DEMAND_CAP)
"""How many slots the queue (None: all) could use now, on all nodes together."""

nodes: Final = Rows("list_nodes", names=10_000, is_dead=False, limit=DEFAULT_LIMIT)
"""Nodes with lease, slots, queues and handlers; with `is_dead` None the dead after the living.

`lease_ttl` is in seconds, `runs` is how many a node holds, `unresponsive_runs` are the first that
go on though asked to stop.
"""

counts: Final = Rows("count_live_runs").the
"""Live runs (running, due, later, blocked, oldest_due), pauses, dead letters."""

outcomes: Final = Rows("count_outcomes", seconds=3600.0)
"""How runs ended in the last ``seconds``: outcome, runs, last_finished_at."""

may_read_history: Final = Call[bool]("read_rights")
"""Whether this role may read the runs of others."""

_runs_of_ids: Final = Rows("runs_of_ids", "run_ids", most=0)
_LISTED: Final = (
    *("id", "uuid", "origin", "schedule", "fire_time", "handler", "queue", "priority", "state"),
    *("waits_for", "waits_detail", "attempt", "max_attempts", "delivery", "due_at", "started_at"),
    *("finished_at", "duration", "node", "error", "tags"),
)


async def runs(
    connection: Any,
    *,
    states: Sequence[str] = (),
    schedule_name: str | None = None,
    limit: int = DEFAULT_LIMIT,
    schema: str = DEFAULT_SCHEMA,
    **filters: Any,
) -> list[Row]:
    """Live and ended runs, newest first, and those of `STATE_WORDS` and `STATE_GROUPS` alone that
    are named; of none, all but those that are scheduled. `filters` are others of `RunFilter`, of
    which None is none. `word` is what people read.

    Looks at the newest `LOOK` runs (of the schedule, when one is named; NotFound if it is unknown).
    """
    named = [word for each in states for word in STATE_GROUPS.get(each, (each,))]
    if not named:
        named = [word for word in STATE_WORDS if word != "scheduled"]
    given = {name: value for name, value in filters.items() if value is not None}
    wanted = RunFilter(tuple(named), "attention" in states, **given, rows=limit)
    with answers():
        if schedule_name is None:
            page = await newest_runs(connection, wanted, Position(), schema=schema)
        else:
            row = await schedule(connection, schedule_name, schema=schema)
            page = await runs_of_schedule(connection, row["id"], wanted, Position(), schema=schema)
    words = {row["id"]: row["word"] for row in page.rows}
    # The page of a schedule shows its live runs above as many others as were asked for.
    newest = sorted(words, reverse=True)[:limit]
    found = await _runs_of_ids(connection, newest, schema=schema)
    return [
        {name: row[name] for name in _LISTED}
        | {"overrun_after": row["expected"], "word": words[row["id"]]}
        for row in found
        if row["place"] != GONE
    ]
