"""The baseline: a loop with no features that claims, awaits and deletes in batches.

``python -m tests.benchmarks.bare_loop DSN``: drains the table ``bare_job`` and prints
``{"cpu_seconds", "peak_memory", "ended_at"}``: bytes, and for each job the seconds after which its
end was committed. What a queue in PostgreSQL can reach from asyncio at best:
no history, no fence, no retries, no log. The completion of one batch overlaps with the claim of the
next, on two connections.
"""

from __future__ import annotations

import asyncio
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


async def drain(
    claiming: asyncpg.Connection, completing: asyncpg.Connection
) -> list[tuple[int, float]]:
    """Until the table is empty; how many jobs ended at which `time.monotonic` instants."""
    ended_at: list[tuple[int, float]] = []
    claimed = await claiming.fetch(CLAIM, BATCH)
    while claimed:
        for row in claimed:
            await noop(row["payload"])
        ended = [row["id"] for row in claimed]
        claimed, _ = await asyncio.gather(
            claiming.fetch(CLAIM, BATCH), completing.execute(COMPLETE, ended)
        )
        ended_at.append((len(ended), time.monotonic()))
    return ended_at


async def main(dsn: str) -> None:
    """Drain, and say how long it took."""
    claiming, completing = await own_session(dsn), await own_session(dsn)
    for connection in (claiming, completing):
        await connection.execute("SELECT 1")
    began, cpu = time.monotonic(), time.process_time()
    ended_at = await drain(claiming, completing)
    print(
        json.dumps(
            {
                "cpu_seconds": time.process_time() - cpu,
                "peak_memory": machine.peak_memory_bytes(os.getpid()),
                "ended_at": [at - began for count, at in ended_at for _ in range(count)],
            }
        )
    )
    await claiming.close()
    await completing.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
