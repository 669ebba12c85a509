"""Clients of the product: what they asked for, what they were told, and what they can't know.

Each operation is written down before it is sent and after its answer: ``ok``, ``refused`` (it did
not happen) or ``unknown`` (it may have happened).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Mapping
from typing import Any

import asyncpg

from tests.chaos import record
from tests.chaos.stage import Stage
from tests.sessions import USUAL

STATEMENT_SECONDS = 5
"""The server ends a client's statement after this: a bound for what is unknown."""

PAUSE_SECONDS = 0.12

# What the server says of a statement that it has not carried out.
_REFUSALS = (
    asyncpg.exceptions.SyntaxOrAccessError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.RaiseError,
)

_operations = itertools.count(1)


class Client:
    """One session with the server, made again whenever it breaks."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.chance = random.Random(seed)
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def rows(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """A read of its own; raises what the driver raises."""
        connection = await self._connected()
        return await connection.fetch(query, *arguments)

    async def ask(self, what: str, query: str, *arguments: Any, **facts: Any) -> Any:
        """One operation with its number as `$1`; the answer's first column, None without one."""
        return await self.ask_in_transaction(what, [(query, arguments)], **facts)

    async def ask_in_transaction(
        self,
        what: str,
        queries: list[tuple[str, tuple[Any, ...]]],
        *,
        begin: str | None = None,
        linger: float = 0.0,
        rolls_back: bool = False,
        **facts: Any,
    ) -> Any:
        """Several statements, each with the operation's number as `$1`; `begin` opens a block."""
        number = next(_operations)
        try:
            connection = await self._connected()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        record.write("ask", op=number, what=what, **facts)
        result, value = "unknown", None
        try:
            if begin is not None:
                await connection.execute(begin)
            for query, arguments in queries:
                value = await connection.fetchval(query, number, *arguments)
            if begin is not None:
                await asyncio.sleep(linger)
                await connection.execute("ROLLBACK" if rolls_back else "COMMIT")
            result = "refused" if rolls_back else "ok"
        except Exception as error:
            result = "refused" if _is_refusal(error) else "unknown"
            self.forget_connection()
        record.write("answer", op=number, result=result, value=value)
        return value if result == "ok" else None

    def forget_connection(self) -> None:
        """The next operation makes a new one."""
        if self._connection is not None:
            self._connection.terminate()
        self._connection = None

    async def _connected(self) -> asyncpg.Connection[asyncpg.Record]:
        if self._connection is None or self._connection.is_closed():
            connection = await asyncpg.connect(
                self.stage.dsn,
                timeout=2,
                command_timeout=STATEMENT_SECONDS + 1,
                server_settings={"application_name": "chaos-client"},
            )
            self._connection = connection
            await connection.execute(f"{USUAL}; SET statement_timeout = '{STATEMENT_SECONDS}s'")
        return self._connection


def _is_refusal(error: Exception) -> bool:
    state = getattr(error, "sqlstate", None)
    return isinstance(error, _REFUSALS) or (isinstance(state, str) and state.startswith("PC"))


_ENQUEUE = (
    "SELECT pgcron.enqueue($2, jsonb_build_object('op', $1::int) || $3::jsonb,"
    " priority => $4, due_at => now() + $5::float8 * interval '1 s', idempotency_key => $6,"
    " max_attempts => $7, delivery => $8)"
)
RETRY = '\'{"base": 0.2, "cap": 2}\''
_INSERT = (
    "INSERT INTO pgcron.run (handler, args, priority, due_at, max_attempts, delivery, retry)"
    " SELECT $2, jsonb_build_object('op', $1::int) || $3::jsonb, $4,"
    f" now() + $5::float8 * interval '1 s', $6, $7, {RETRY} RETURNING id"
)


async def enqueue(
    client: Client,
    handler: str,
    args: Mapping[str, object],
    *,
    key: str | None = None,
    attempts: int | None = 100,
    delivery: str = "at_least_once",
    ahead: float = 0.0,
) -> int | None:
    """One run, by the function when it has a key and by a plain INSERT otherwise; its id."""
    priority = client.chance.choice([0, 5, 5, 5, 9])
    text = json.dumps(args)
    facts = {"handler": handler, "key": key, "delivery": delivery}
    run: int | None
    if key is not None:
        values = (handler, text, priority, ahead, key, attempts, delivery)
        run = await client.ask("enqueue", _ENQUEUE, *values, **facts)
    else:
        plain = (handler, text, priority, ahead, attempts, delivery)
        run = await client.ask("enqueue", _INSERT, *plain, **facts)
    return run


async def keep_enqueueing(client: Client, ttl: float, stop: asyncio.Event) -> None:
    """Runs of all kinds that end by themselves, until it is told to stop."""
    while not stop.is_set():
        await one_run(client, ttl)
        await asyncio.sleep(PAUSE_SECONDS)


async def one_run(client: Client, ttl: float) -> int | None:
    """By chance: short or long, plain or async or a program, with a key, only once, or later."""
    chance = client.chance
    seconds = round(chance.random() * 0.5, 2)
    if chance.random() < 0.06:
        seconds = round(chance.uniform(0.5, 2.0) * ttl, 2)
    kind = chance.random()
    if kind < 0.15:
        return await enqueue(
            client, "py:work", {"seconds": seconds}, attempts=None, delivery="at_most_once"
        )
    if kind < 0.3:
        key = f"key-{chance.randrange(60)}"
        return await enqueue(client, "py:work", {"seconds": seconds}, key=key)
    if kind < 0.4:
        return await enqueue(client, "py:thread", {"seconds": seconds})
    if kind < 0.46:
        return await enqueue(client, "py:unresponsive", {"seconds": seconds})
    if kind < 0.5:
        # The template has no placeholder for the operation's number.
        await client.ask(
            "program",
            "INSERT INTO pgcron.run (handler, args, max_attempts, retry)"
            f" SELECT 'shell:program', $2::jsonb, 100 + 0 * $1::int, {RETRY} RETURNING id",
            json.dumps({"seconds": seconds, "concurrency_key": "none"}),
            handler="shell:program",
        )
        return None
    ahead = chance.choice([0.0, 0.0, 0.0, 1.0])
    # One that takes long and fails again and again would outlast the end of the play.
    args = {"seconds": seconds, "fail": 0.1 if seconds <= 0.5 else 0.0}
    return await enqueue(client, "py:work", args, ahead=ahead)
