"""What must always hold, asked each second while everything else goes on (C13)."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from pgcron_ha.operating_system import boottime
from tests.chaos import record
from tests.chaos.stage import SLOTS, Stage

INTERVAL_SECONDS: Final = 0.5
FAILING_SECONDS: Final = 30.0
"""For longer no service may go without a good pass while the database works."""

_LOOK = f"""
SELECT extract(epoch FROM clock_timestamp())::float8 AS now,
       (SELECT count(*) FROM pgcron.run) AS live,
       (SELECT coalesce(max(extract(epoch FROM now() - n.ended_at)), 0)::float8 FROM pgcron.run r
          JOIN pgcron.node n ON n.incarnation = r.owner
         WHERE r.state = 'running' AND n.state = 'dead') AS orphaned,
       (SELECT coalesce(max(extract(epoch FROM now() - r.due_at)), 0)::float8 FROM pgcron.run r
         WHERE r.state = 'ready' AND r.due_at <= now() AND r.concurrency_key IS NULL
           AND r.requires IS NULL AND r.queue = 'default') AS waiting,
       (SELECT coalesce(max(extract(epoch FROM now() - r.due_at)), 0)::float8 FROM pgcron.run r
         WHERE r.state <> 'running' AND r.due_at <= now()
           AND r.gate IS DISTINCT FROM 'workflow') AS waiting_at_gates,
       ARRAY(SELECT r.owner::text FROM pgcron.run r
         WHERE r.state = 'running' AND r.delivery = 'at_most_once'
         GROUP BY r.owner HAVING count(*) > {SLOTS + 4}) AS hoarders,
       (SELECT count(*) FROM (SELECT 1 FROM pgcron.run r
         LEFT JOIN pgcron.schedule s ON s.id = r.schedule_id WHERE r.overlap IS NOT NULL
         AND r.state = 'running' GROUP BY r.schedule_id
         HAVING count(*) > coalesce(max(s.max_running), 1)) x) AS crowded_schedules,
       (SELECT count(*) FROM pgcron.run WHERE gate IS NOT NULL) AS blocked,
       (SELECT count(*) FROM pgcron.node n WHERE n.state = 'alive' AND n.slots >
         (SELECT count(*) FROM pgcron.run r WHERE r.state = 'running' AND r.owner = n.incarnation))
         AS nodes_with_room,
       ARRAY(SELECT format('%s: %s: %s', n.name, f ->> 'service', left(f ->> 'error', 100))
         FROM pgcron.node n, jsonb_array_elements(n.health -> 'failing') f
         WHERE n.state <> 'dead' AND (f ->> 'seconds')::float8 > {FAILING_SECONDS} LIMIT 5)
         AS failing,
       (SELECT extract(epoch FROM b.opened_at)::float8 FROM pgcron.breaker b
         WHERE b.name = 'py:flaky' AND b.state <> 'closed') AS broken_since,
       (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()) AS deadlocks
"""


async def keep_watching(stage: Stage, stop: asyncio.Event) -> None:
    """One line of evidence each look; a server that is away is written down, too."""
    while not stop.is_set():
        try:
            async with stage.connected("chaos-watch") as connection:
                while not stop.is_set():
                    row = await connection.fetchrow(_LOOK, timeout=3)
                    assert row is not None
                    facts = dict(row) | {"offset": time.time() - boottime()}
                    record.write("look", **facts)
                    await asyncio.sleep(INTERVAL_SECONDS)
        except Exception as error:  # a driver has many words for a database that is away
            record.write("look failed", error=type(error).__name__)
            await asyncio.sleep(INTERVAL_SECONDS)


async def keep_reviving(stage: Stage, stop: asyncio.Event) -> None:
    """A service manager: a node that ended by itself is started again."""
    while not stop.is_set():
        await stage.revive_ended()
        await asyncio.sleep(0.2)
