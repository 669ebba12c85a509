"""The baseline: a loop with no features that claims, awaits and deletes in batches.

``python -m tests.benchmarks.bare_loop DSN``: drains the table ``bare_job`` and prints
``{"cpu_seconds", "peak_memory", "ended_at"}``: bytes, and for each job the seconds after which its
end was committed. No history, no fence, no retries, no log; one process, one connection, one
statement after the other.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Final

import asyncpg
import uvloop

from tests.benchmarks import machine
from tests.sessions import own_session

BATCH: Final = 500

TABLE: Final = """
DROP TABLE IF EXISTS public.bare_job;
CREATE TABLE public.bare_job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL,
  leased_until timestamptz
);
CREATE INDEX bare_job_ready ON public.bare_job (id) WHERE leased_until IS NULL;
"""
CLAIM: Final = """
UPDATE public.bare_job SET leased_until = now() + interval '15 seconds'
WHERE id = ANY(ARRAY(SELECT id FROM public.bare_job WHERE leased_until IS NULL
                     ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING id, payload
"""
COMPLETE: Final = "DELETE FROM public.bare_job WHERE id = ANY($1::bigint[])"

calls = 0


async def noop(payload: str) -> None:
    """Count one call, as the node's handler does."""
    global calls
    calls += 1


async def drain(connection: asyncpg.Connection) -> list[tuple[int, float]]:
    """Until the table is empty; how many jobs ended at which `time.monotonic` instants."""
    ended_at: list[tuple[int, float]] = []
    while claimed := await connection.fetch(CLAIM, BATCH):
        for row in claimed:
            await noop(row["payload"])
        await connection.execute(COMPLETE, [row["id"] for row in claimed])
        ended_at.append((len(claimed), time.monotonic()))
    return ended_at


async def main(dsn: str) -> None:
    """Drain, and say how long it took."""
    connection = await own_session(dsn)
    await connection.execute("SELECT 1")
    began, cpu = time.monotonic(), time.process_time()
    ended_at = await drain(connection)
    print(
        json.dumps(
            {
                "cpu_seconds": time.process_time() - cpu,
                "peak_memory": machine.peak_memory_bytes(os.getpid()),
                "ended_at": [at - began for count, at in ended_at for _ in range(count)],
            }
        )
    )
    await connection.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
