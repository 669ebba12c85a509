"""What other users of the database do: long locks, transactions left open, a full notification
queue (N22 to N24), and a clock that is set (N25).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Final

import asyncpg

from tests.chaos import record
from tests.chaos.composing import Fault
from tests.chaos.nemeses_of_the_server import NEMESIS
from tests.chaos.stage import Connection, Stage
from tests.product.cli import granting

LOCK_LEASES: Final = 30.0
"""A minute, at a lease of two seconds."""

_ROWS: Final = (
    "SELECT FROM pgcron.run WHERE state = 'running' ORDER BY id LIMIT 3 FOR UPDATE",
    "SELECT FROM pgcron.run WHERE state = 'ready' ORDER BY due_at, id LIMIT 20 FOR UPDATE",
    "SELECT FROM pgcron.schedule WHERE name LIKE 'e%' LIMIT 2 FOR UPDATE",
    "SELECT FROM pgcron.cursor WHERE schedule_id IN"
    " (SELECT s.id FROM pgcron.schedule s WHERE s.name LIKE 'e%' LIMIT 2) FOR UPDATE",
    "SELECT FROM pgcron.run WHERE state = 'running' ORDER BY random() LIMIT 50 FOR UPDATE",
)
_TABLES: Final = ("run", "node", "cursor", "history", "log", "attempt", "occurrence", "schedule")
_MODES: Final = ("ACCESS EXCLUSIVE", "EXCLUSIVE", "SHARE ROW EXCLUSIVE", "SHARE")


async def lock_rows_long(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N22: the owner sits on rows for a minute."""
    async with _open(stage, "long row lock", _length(stage, chance)) as connection:
        await connection.execute(chance.choice(_ROWS))


async def lock_table_long(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N22: an index is built, or a table rewritten."""
    table, mode = chance.choice(_TABLES), chance.choice(_MODES)
    async with _open(stage, "table lock", _length(stage, chance) / 2, table=table) as connection:
        await connection.execute(f"LOCK TABLE pgcron.{table} IN {mode} MODE")


_CALLS: Final = (
    ("producer", "SELECT pgcron.enqueue('py:work', idempotency_key => 'held')"),
    ("producer", "SELECT pgcron.enqueue('py:work', unique_key => 'held')"),
    (
        "operator",
        "SELECT pgcron.cancel_run(r.id) FROM pgcron.run r WHERE r.state = 'running' LIMIT 1",
    ),
    ("operator", "SELECT pgcron.cordon_node('n1')"),
    ("operator", "SELECT pgcron.pause_queue('default')"),
    ("operator", "SELECT pgcron.set_concurrency('held', 3)"),
    ("operator", "SELECT pgcron.set_breaker('py:raises', 3)"),
    ("scheduler", "SELECT pgcron.pause_schedule('e1')"),
    ("scheduler", "SELECT pgcron.put_schedule('e2', '* * * * * *', 'py:work')"),
)


async def fall_silent(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N23: clients with rights of their own call a function and never commit."""
    part, call = chance.choice(_CALLS)
    role = f"chaos_{part}"
    async with stage.connected(NEMESIS) as owner:
        known = await owner.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role)
        if not known:
            await owner.execute(f"CREATE ROLE {role}")
            await owner.execute(granting(part, role))
    async with _open(stage, "silent client", _length(stage, chance), role=role) as connection:
        await connection.execute(call)


async def fill_notifications(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N24: a listener that never reads keeps the queue's tail while others notify."""
    async with stage.connected(NEMESIS) as unresponsive, stage.connected(NEMESIS) as loud:
        await unresponsive.execute("LISTEN chaos")
        await unresponsive.execute("BEGIN")
        await unresponsive.execute("SELECT 1")
        record.write("notification queue", state="filling")
        with contextlib.suppress(asyncpg.PostgresError):
            for _ in range(200):
                await loud.execute(_LOUD)
        record.write("notification queue", state="full")
        await asyncio.sleep(max(fault.seconds, 2 * stage.settings.ttl))
        await unresponsive.execute("ROLLBACK")
    record.write("notification queue", state="free")


_LOUD: Final = (
    "SELECT count(pg_notify('chaos', n || repeat('x', 7000))) FROM generate_series(1, 20) n"
)


async def set_clock(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N25: the server's clock is stepped, forth and back, by less than a run may last."""
    if stage.clock is None:
        raise RuntimeError("the server has no clock of its own (apt-get install libfaketime)")
    seconds = chance.choice([-20.0, -3.0, 3.0, 20.0])
    stage.set_clock(seconds)
    record.write("clock", seconds=seconds)
    await asyncio.sleep(max(fault.seconds, stage.settings.ttl))
    stage.set_clock(0.0)
    record.write("clock", seconds=0.0)


def _length(stage: Stage, chance: random.Random) -> float:
    return chance.choice([0.2, 0.5, 1.0]) * LOCK_LEASES * stage.settings.ttl


@contextlib.asynccontextmanager
async def _open(
    stage: Stage, what: str, seconds: float, role: str | None = None, **facts: str
) -> AsyncIterator[Connection]:
    """A transaction that stays open for so long after its body, and is rolled back."""
    async with stage.connected(NEMESIS) as connection:
        if role is not None:
            await connection.execute(f"SET SESSION AUTHORIZATION {role}")
        await connection.execute("BEGIN")
        await connection.execute("SET LOCAL lock_timeout = '3s'")
        try:
            yield connection
        except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError):
            return  # somebody else has it
        record.write("held", what=what, state="on", **facts)
        try:
            await asyncio.sleep(seconds)
            await connection.execute("ROLLBACK")
        finally:
            record.write("held", what=what, state="off", **facts)
