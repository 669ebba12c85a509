"""What it costs to enqueue, one by one and in bulk, beside an INSERT into a bare table.

The ways take turns in small blocks, each on a connection of its own, so that the processor time of
its backend is its own. No node listens: the rows stay. All but the producers are the owner of the
schema, whom no rule confines.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg

from pgcron_ha import App
from tests.benchmarks import machine
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes
from tests.product.cli import granting
from tests.product.client import NewRun
from tests.servers import PASSWORD, USER
from tests.sessions import own_session

Block = Callable[[asyncpg.Connection, int], Awaitable[None]]

_ARGS: Final = '{"t": 1, "k": "kkkkkkkkkkkkkkkkkkkkkkkk"}'
_CLIENT_ARGS: Final = {"t": 1, "k": "k" * 24}

# What a queue needs at least; no CHECK, no trigger. It stays as it is, whatever becomes of our row.
_BARE_TABLE: Final = """
CREATE TABLE public.bare_run (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, handler text NOT NULL, args jsonb NOT NULL,
  queue text NOT NULL DEFAULT 'default', priority smallint NOT NULL DEFAULT 5,
  due_at timestamptz NOT NULL DEFAULT now(), state text NOT NULL DEFAULT 'ready');
CREATE INDEX ON public.bare_run (queue, priority, due_at, id) WHERE state = 'ready';
"""
_CALL: Final = 500
_numbers: Final = itertools.count()
_BARE, _RUN = "public.bare_run", "pgcron.run"
_INSERT, _COPY = "bare INSERT", "bare COPY"
_FUNCTION: Final = "SQL function"
# What is said beside handler and args, with the number of the row.
_EACH: Final = "unique_key => 'each ' || $2::text"
_SAME: Final = "unique_key => left('same' || $2::text, 4)"
# What a producer may enqueue, and how much of it.
_RULES: Final = {"queues": ["default", "mail-*"], "handlers": ["py:noop", "py:mail.*"]}
_QUOTA: Final = {"backlog": 1_000_000}
_DEBOUNCED: Final = "unique_key => left('later' || $2::text, 5), debounce => '1 hour'"


@dataclass
class Way:
    """One way to enqueue, and what it has cost so far: seconds for `rows`.

    `beside` names the way it is compared with; nothing: others are compared with it. `limits`: it
    is a producer's, which has a role of its own with these rules. `goal` is that of the rate,
    `cost` that of the server's CPU.
    """

    name: str
    block: Block
    beside: str = ""
    goal: str = ""
    cost: str = ""
    limits: Mapping[str, Any] | None = None
    rows: int = 0
    seconds: list[float] = field(default_factory=list)
    client_cpu: float = 0.0
    server_cpu: float = 0.0

    def microseconds(self, seconds: float) -> float:
        """Of one row."""
        return seconds / self.rows * 1e6

    @property
    def rate(self) -> float:
        """Rows a second, all blocks together."""
        return self.rows / sum(self.seconds)


async def one_by_one(ground: Ground, sizes: Sizes) -> Result:
    """A statement and a commit for each row."""
    goal = "≥ 0.75, aim at 0.85"
    ways = [
        Way(_INSERT, _inserts(_BARE)),
        Way(_FUNCTION, _calls, _INSERT, goal),
        Way("INSERT", _inserts(_RUN), _INSERT, goal),
        Way("Python client", _client_calls, _INSERT, goal),
        Way("a new unique key", _unique(_EACH), _FUNCTION),
        Way("a unique key that is taken", _unique(_SAME), _FUNCTION),
        Way("debounced", _unique(_DEBOUNCED), _FUNCTION),
        Way("a producer", _calls, _FUNCTION, cost="≤ 1.05 ×", limits=_RULES),
        Way("a producer with a backlog", _calls, _FUNCTION, limits={**_RULES, **_QUOTA}),
    ]
    result = Result(
        "enqueue",
        "an INSERT into a bare table, prepared, one commit each",
        {"blocks": sizes.enqueue_blocks, "rows of a block": sizes.enqueue_block},
    )
    return await _benchmark(ground, result, ways, sizes.enqueue_blocks, sizes.enqueue_block)


async def in_bulk(ground: Ground, sizes: Sizes) -> Result:
    """Many rows in one statement and one transaction."""
    goal = "≥ 0.45, aim at 0.60"
    ways = [
        Way(_INSERT, _in_calls(_multi_row(_BARE))),
        Way("pgcron.enqueue_many", _in_calls(_calls_for_many), _INSERT, goal),
        Way("App.enqueue_many", _in_calls(_client_calls_for_many), _INSERT, goal),
        Way("multi-row INSERT", _in_calls(_multi_row(_RUN)), _INSERT, goal),
        Way("pgcron.enqueue for each row", _in_calls(_calls_for_rows), _INSERT),
        Way(_COPY, _in_calls(_copies(_BARE))),
        Way("COPY", _in_calls(_copies(_RUN)), _COPY, goal),
    ]
    result = Result(
        "enqueue_bulk",
        "an INSERT (for COPY a COPY) of as many rows into a bare table, one statement",
        {"blocks": sizes.bulk_blocks, "rows of a block": sizes.bulk_rows, "of a call": _CALL},
    )
    return await _benchmark(ground, result, ways, sizes.bulk_blocks, sizes.bulk_rows)


async def _benchmark(
    ground: Ground, result: Result, ways: list[Way], blocks: int, rows: int
) -> Result:
    async with ground.place() as place, AsyncExitStack() as stack:
        await place.observer.execute(_BARE_TABLE)
        connections = [await _opened(stack, place, way.limits) for way in ways]
        for number in range(blocks + 1):
            turn = number % len(ways)
            for index in [*range(turn, len(ways)), *range(turn)]:
                await _measure(ways[index], connections[index], rows, counts=number > 0)
    _add_figures(result, ways)
    return result.finished()


def _in_calls(block: Block) -> Block:
    async def calls(connection: asyncpg.Connection, rows: int) -> None:
        for begun in range(0, rows, _CALL):
            await block(connection, min(_CALL, rows - begun))

    return calls


async def _measure(way: Way, connection: asyncpg.Connection, rows: int, *, counts: bool) -> None:
    """One block; the first one only warms up."""
    backend = connection.get_server_pid()
    server, client = machine.fine_cpu_seconds(backend), time.process_time()
    began = time.perf_counter()
    await way.block(connection, rows)
    seconds = time.perf_counter() - began
    if counts:
        way.rows += rows
        way.seconds.append(seconds)
        way.client_cpu += time.process_time() - client
        way.server_cpu += machine.fine_cpu_seconds(backend) - server
    await asyncio.sleep(0)


def _add_figures(result: Result, ways: list[Way]) -> None:
    named = {way.name: way for way in ways}
    pairs = [(way, named[way.beside]) for way in ways if way.beside]
    for way, base in pairs:
        result.add(f"{way.name}: rate", way.rate, "rows/s", base.rate, way.goal)
    for way, base in pairs:
        for name, cpu, base_cpu, goal in (
            ("client CPU", way.client_cpu, base.client_cpu, ""),
            ("server CPU", way.server_cpu, base.server_cpu, way.cost),
        ):
            baseline = base.microseconds(base_cpu)
            result.add(f"{way.name}: {name}", way.microseconds(cpu), "µs/row", baseline, goal)
    result.details["seconds of each block"] = {way.name: way.seconds for way in ways}


async def _opened(
    stack: AsyncExitStack, place: Place, limits: Mapping[str, Any] | None
) -> asyncpg.Connection:
    """Of the owner; with limits, of a new producer."""
    dsn = place.dsn
    if limits is not None:
        role = f"producer_{next(_numbers)}"
        await place.observer.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
        await place.observer.execute(granting("producer", role, **limits))
        dsn = dsn.replace(f"//{USER}:", f"//{role}:")
    connection: asyncpg.Connection = await own_session(dsn)
    stack.push_async_callback(connection.close)
    return connection


def _inserts(table: str) -> Block:
    async def block(connection: asyncpg.Connection, rows: int) -> None:
        statement = await connection.prepare(
            f"INSERT INTO {table} (handler, args) VALUES ('py:noop', $1) RETURNING id"
        )
        for _ in range(rows):
            await statement.fetchval(_ARGS)

    return block


async def _calls(connection: asyncpg.Connection, rows: int) -> None:
    statement = await connection.prepare("SELECT pgcron.enqueue('py:noop', $1)")
    for _ in range(rows):
        await statement.fetchval(_ARGS)


def _unique(said: str) -> Block:
    numbers = itertools.count()

    async def block(connection: asyncpg.Connection, rows: int) -> None:
        statement = await connection.prepare(f"SELECT pgcron.enqueue('py:noop', $1, {said})")
        for _ in range(rows):
            await statement.fetchval(_ARGS, str(next(numbers)))

    return block


async def _client_calls(connection: asyncpg.Connection, rows: int) -> None:
    app = App("unused", "pgcron")
    for _ in range(rows):
        await app.enqueue("noop", _CLIENT_ARGS, conn=connection)


async def _calls_for_many(connection: asyncpg.Connection, rows: int) -> None:
    options = f'{{"handler": "py:noop", "args": {_ARGS}}}'
    await connection.fetchval("SELECT pgcron.enqueue_many($1)", f"[{','.join([options] * rows)}]")


async def _client_calls_for_many(connection: asyncpg.Connection, rows: int) -> None:
    options: NewRun = {"handler": "noop", "args": _CLIENT_ARGS}
    await App("unused", "pgcron").enqueue_many([options] * rows, conn=connection)


def _multi_row(table: str) -> Block:
    async def block(connection: asyncpg.Connection, rows: int) -> None:
        await connection.execute(
            f"INSERT INTO {table} (handler, args)"
            " SELECT 'py:noop', each::jsonb FROM unnest($1::text[]) each",
            [_ARGS] * rows,
        )

    return block


async def _calls_for_rows(connection: asyncpg.Connection, rows: int) -> None:
    await connection.fetchval(
        "SELECT count(pgcron.enqueue('py:noop', each::jsonb)) FROM unnest($1::text[]) each",
        [_ARGS] * rows,
    )


def _copies(table: str) -> Block:
    schema, _, name = table.partition(".")

    async def block(connection: asyncpg.Connection, rows: int) -> None:
        records: list[tuple[Any, ...]] = [("py:noop", _ARGS)] * rows
        await connection.copy_records_to_table(
            name, schema_name=schema, columns=["handler", "args"], records=records
        )

    return block
