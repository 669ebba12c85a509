"""What happens to PostgreSQL, and what its other users do to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal

import asyncpg

from pgcron_ha.operating_system import boottime
from tests.chaos import record
from tests.chaos.composing import Fault
from tests.chaos.stage import DATABASE, HORIZON_SECONDS, MAX_CONNECTIONS, Stage
from tests.e2e.nodes import send

NEMESIS = "chaos-nemesis"
"""The application name of sessions that do harm: their deadlocks are wanted."""

_OTHERS = (
    "pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()"
    " AND application_name NOT LIKE 'chaos-%'"
)
_LONGEST_OUTAGE = 3.0
"""Leases: for how long the server is kept down."""


async def restart_server(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N7: stop fast or immediate, or kill -9 of the postmaster; up again after a while."""
    async with stage.handling:
        await stage.stop_server(chance.choice(["fast", "immediate", "kill9"]))
        await asyncio.sleep(min(fault.seconds, _LONGEST_OUTAGE * stage.settings.ttl) / 2)
        await stage.start_server()


async def outlast_the_horizon(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N7: away for so long that fires come which nobody has materialized."""
    async with stage.handling:
        await stage.stop_server(chance.choice(["fast", "kill9"]))
        await asyncio.sleep(HORIZON_SECONDS + 2 + min(4.0, fault.seconds))
        await stage.start_server()


async def kill_backend(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N7: kill -9 of one backend, after which the server restarts all of them by itself."""
    async with stage.handling, stage.connected(NEMESIS) as connection:
        pids = [row[0] for row in await connection.fetch(_pids_of(_OTHERS))]
        if pids:
            record.write("server", state="stopping", how="backend")
            send(chance.choice(pids), signal.SIGKILL)
    await asyncio.sleep(fault.seconds / 4)


async def freeze_server(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N7: SIGSTOP of the postmaster and all its children."""
    async with stage.handling:
        family = stage.postmaster_family()
        try:
            for pid in family:
                send(pid, signal.SIGSTOP)
            await asyncio.sleep(min(fault.seconds, _LONGEST_OUTAGE * stage.settings.ttl))
        finally:
            for pid in family:
                send(pid, signal.SIGCONT)


async def terminate_backends(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N8: pg_terminate_backend of all, of some, or of the heartbeats only."""
    victims = chance.choice(["true", "random() < 0.4", "query LIKE '%beat_sequence + 1%'"])
    for _ in range(chance.randint(1, 3)):
        async with stage.connected(NEMESIS) as connection:
            await connection.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE {_OTHERS} AND {victims}"
            )
        await asyncio.sleep(fault.seconds / 3)


async def exhaust_connections(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N13: a client takes all connections there are."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            try:
                await stack.enter_async_context(stage.connected(NEMESIS))
            except asyncpg.TooManyConnectionsError:
                break
        await asyncio.sleep(fault.seconds)


async def lock_rows(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N13: a client locks live runs in reverse order, one by one, and sits on them."""
    await _within_a_transaction(
        stage,
        fault.seconds,
        [
            f"SELECT 1 FROM pgcron.run WHERE id = {number} FOR UPDATE"
            for number in await _some_runs(stage, chance.choice(["DESC", "ASC"]))
        ],
    )


async def lock_tables(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N13: a table is locked for longer than anybody waits for it."""
    table = chance.choice(["run", "node", "cursor", "history", "schedule", "occurrence"])
    mode = chance.choice(["ACCESS EXCLUSIVE", "SHARE ROW EXCLUSIVE"])
    seconds = min(fault.seconds, stage.settings.ttl)
    await _within_a_transaction(stage, seconds, [f"LOCK TABLE pgcron.{table} IN {mode} MODE"])


async def hold_snapshot(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N14: a long report: no dead row can be removed while it lasts."""
    await _within_a_transaction(
        stage, fault.seconds, ["SELECT count(*) FROM pgcron.run"], "ISOLATION LEVEL REPEATABLE READ"
    )


async def leave_prepared(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N14: a prepared transaction that holds the lock of a run, and its snapshot."""
    name = f"chaos_{fault.number}"
    runs = await _some_runs(stage, "ASC")
    async with stage.connected(NEMESIS) as connection:
        await connection.execute("BEGIN")
        for number in runs[:2]:
            await connection.execute(
                f"SELECT 1 FROM pgcron.run WHERE id = {number} FOR UPDATE SKIP LOCKED"
            )
        await connection.execute(f"PREPARE TRANSACTION '{name}'")
    try:
        await asyncio.sleep(min(fault.seconds, 2 * stage.settings.ttl))
    finally:
        await until_done(stage, f"ROLLBACK PREPARED '{name}'")


async def lose_partition(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N15: history has no partition for now; what ends goes into the overflow."""
    table = chance.choice(["history", "attempt"])
    found = (
        "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i"
        " JOIN pg_class c ON c.oid = i.inhrelid"
        f" WHERE i.inhparent = 'pgcron.{table}'::regclass"
        f" AND c.relname = to_char(now() AT TIME ZONE 'UTC', '\"{table}_\"YYYYMMDD')"
    )
    async with stage.connected(NEMESIS) as connection:
        row = await connection.fetchrow(found)
        if row is None:
            return
        name, bounds = row
        await connection.execute(f"ALTER TABLE pgcron.{table} DETACH PARTITION pgcron.{name}")
    record.write("partition lost", table=table)
    attach = f"ALTER TABLE pgcron.{table} ATTACH PARTITION pgcron.{name} {bounds}"
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        await until_done(stage, attach)


async def make_read_only(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N15: the database takes no writes, as a demoted primary or a full disk."""
    setting = f"ALTER DATABASE {DATABASE} SET default_transaction_read_only ="
    await _change_default(stage, f"{setting} on")
    try:
        await asyncio.sleep(min(fault.seconds, 2 * stage.settings.ttl))
    finally:
        await until_done(stage, f"{setting} off")
        await _change_default(stage, None)


async def kill_listeners(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N16: no NOTIFY arrives: the listening connections are ended again and again."""
    end = boottime() + fault.seconds
    while boottime() < end:
        async with stage.connected(NEMESIS) as connection:
            await connection.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE {_OTHERS} AND query LIKE 'LISTEN%'"
            )
        await asyncio.sleep(0.3)


async def until_done(stage: Stage, command: str) -> None:
    """Undo what a nemesis did, whatever else happens to the server meanwhile."""
    for _ in range(600):
        try:
            async with stage.connected(NEMESIS) as connection:
                await connection.execute("SET default_transaction_read_only = off")
                await connection.execute(command)
                return
        except (asyncpg.UndefinedObjectError, asyncpg.DuplicateTableError):
            return  # an earlier try had no answer, but was done
        except asyncpg.WrongObjectTypeError:
            return
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await asyncio.sleep(0.2)
    raise AssertionError(f"could not undo: {command}")


async def _change_default(stage: Stage, command: str | None) -> None:
    """A default counts for new sessions, so everybody has to begin a new one."""
    async with stage.connected(NEMESIS) as connection:
        if command is not None:
            await connection.execute(command)
        await connection.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {_OTHERS}"
        )


async def _within_a_transaction(
    stage: Stage, seconds: float, commands: list[str], mode: str = ""
) -> None:
    async with stage.connected(NEMESIS) as connection:
        await connection.execute(f"BEGIN {mode}")
        await connection.execute("SET LOCAL lock_timeout = '3s'")
        try:
            for command in commands:
                await connection.execute(command)
                await asyncio.sleep(0.02)
            await asyncio.sleep(seconds)
        except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError):
            pass  # wanted
        await connection.execute("ROLLBACK")


async def _some_runs(stage: Stage, order: str) -> list[int]:
    async with stage.connected(NEMESIS) as connection:
        rows = await connection.fetch(f"SELECT id FROM pgcron.run ORDER BY id {order} LIMIT 12")
        return [row[0] for row in rows]


def _pids_of(condition: str) -> str:
    return f"SELECT pid FROM pg_stat_activity WHERE {condition}"
