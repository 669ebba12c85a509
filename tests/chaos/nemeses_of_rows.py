"""Rows that break the rules of their tables, and how soon the overview names them (N21).

A row is written while its table has no CHECK constraints and no triggers; then the constraints are
added again, NOT VALID. Or a constraint of our own refuses whatever is done with a row that is fine.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg
import httpx

from pgcron_ha.operating_system import boottime
from tests.chaos import record
from tests.chaos.composing import Fault
from tests.chaos.nemeses_of_the_server import NEMESIS, until_done
from tests.chaos.stage import Connection, Stage
from tests.product.model import LOCAL, Person
from tests.product.web import Entry, create_app

SHOWN_SECONDS: Final = 30.0
"""For how long a poisoned row may go unnamed, amid other faults."""

_TRIES: Final = 300
LEFT_SECONDS: Final = 8.0
"""It stays for so long at least: nodes must meet it."""


@dataclass(frozen=True)
class Poison:
    """`setup` goes by the rules; `bad` is written into `table` without any; `forbids` is a rule of
    our own on ``run`` that refuses what follows. ``{n}`` is the poison's name everywhere.
    """

    what: str
    setup: Sequence[str] = ()
    table: str = ""
    bad: Sequence[str] = ()
    forbids: str = ""
    undo: Sequence[str] = ()


_SCHEDULE: Final = (
    "INSERT INTO pgcron.schedule (name, spec, handler, args) VALUES"
    " ('{n}', '* * * * * *', 'py:work', '{{\"seconds\": 0.1}}')"
)
_RUN: Final = (
    "INSERT INTO pgcron.run (handler, args{columns}) SELECT 'py:work',"
    ' \'{{{{"seconds": {seconds}, "poison": "{{n}}"}}}}\'{values} FROM generate_series(1, 3)'
)
_NO_SCHEDULE: Final = ("DELETE FROM pgcron.schedule WHERE name = '{n}'",)
_NO_RUN: Final = "args ->> 'poison' IS DISTINCT FROM '{n}'"


def _run(columns: str = "", values: str = "", seconds: float = 0.1) -> tuple[str, ...]:
    return (_RUN.format(columns=columns, values=values, seconds=seconds),)


POISONS: Final = (
    Poison(
        "schedule",
        (_SCHEDULE,),
        "schedule",
        ("UPDATE pgcron.schedule SET handler = 'no handler' WHERE name = '{n}'",),
        undo=_NO_SCHEDULE,
    ),
    Poison("schedule", (_SCHEDULE,), forbids="schedule IS DISTINCT FROM '{n}'", undo=_NO_SCHEDULE),
    Poison("run", _run(), forbids=_NO_RUN),
    Poison("run", _run(", delivery", ", 'at_most_once'"), forbids=_NO_RUN),
    Poison("run", _run(", concurrency_key", ", '{{n}}'"), forbids=_NO_RUN),
    Poison("run", _run(seconds=2.5), forbids=f"{_NO_RUN} OR started_at IS NULL"),
    Poison(
        "run",
        _run(),
        "run",
        (
            'UPDATE pgcron.run SET time_limits = \'{{"give_up_at": "2026-13-45T99:99"}}\''
            " WHERE args ->> 'poison' = '{n}'",
        ),
    ),
    Poison(
        "queue",
        _run(", queue", ", 'default'"),
        "queue",
        ("INSERT INTO pgcron.queue (name, rate, per) VALUES ('{n}', 0, '0')",),
        undo=("DELETE FROM pgcron.queue WHERE name = '{n}'",),
    ),
    Poison(
        "key",
        _run(", concurrency_key", ", '{{n}}'"),
        "concurrency_limit",
        (
            "INSERT INTO pgcron.concurrency_limit (concurrency_key, slots, rate, per)"
            " VALUES ('{n}', 3, 0, '0')",
        ),
        undo=("DELETE FROM pgcron.concurrency_limit WHERE concurrency_key = '{n}'",),
    ),
    Poison(
        "breaker",
        (),
        "breaker",
        (
            "INSERT INTO pgcron.breaker (name, failures, within) VALUES ('py:{n}', -1, '0')",
            "INSERT INTO pgcron.breaker_handler VALUES ('py:raises', 'py:{n}')"
            " ON CONFLICT DO NOTHING",
        ),
        undo=("DELETE FROM pgcron.breaker WHERE name = 'py:{n}'",),
    ),
    Poison(
        "calendar",
        (
            "SELECT pgcron.put_calendar('{n}', '2026-12-25')",
            "INSERT INTO pgcron.schedule (name, spec, handler, args) VALUES ('{n}',"
            " E'* * * * * *\\nnot in {n}', 'py:work', '{{\"seconds\": 0.1}}')",
        ),
        "calendar",
        (
            "UPDATE pgcron.calendar SET content = 'no rule at all' WHERE name = '{n}'",
            'UPDATE pgcron.schedule SET calendars = \'{{"{n}": "no rule at all"}}\''
            " WHERE name = '{n}'",
        ),
        undo=(*_NO_SCHEDULE, "DELETE FROM pgcron.calendar WHERE name = '{n}'"),
    ),
    Poison(
        "override",
        (_SCHEDULE,),
        "occurrence_override",
        (
            "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, args)"
            " SELECT s.id, date_trunc('second', now()) + n * interval '1 second', 'edit', '[]'"
            " FROM pgcron.schedule s, generate_series(6, 40) n WHERE s.name = '{n}'",
        ),
        undo=_NO_SCHEDULE,
    ),
    Poison(
        "backfill",
        (
            _SCHEDULE,
            "SELECT pgcron.backfill('{n}', since => now() - interval '1 hour', until => now())",
        ),
        "backfill",
        ("UPDATE pgcron.backfill SET definition = '[]' WHERE schedule = '{n}'",),
        undo=_NO_SCHEDULE,
    ),
)


async def poison_row(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N21: one row that breaks its rules; what it stops, and how soon it is named."""
    poison, name = chance.choice(POISONS), f"poison-{fault.number}"
    began = boottime()
    async with stage.connected(NEMESIS) as connection:
        for command in poison.setup:
            await connection.execute(command.format(n=name))
        await _poison(connection, poison, name)
        found = f"SELECT id FROM pgcron.schedule WHERE name = '{name}'"
        schedule = await connection.fetchval(found)
    record.write("poisoned", what=poison.what, name=name, schedule=schedule)
    try:
        await _wait_until_shown(stage, poison, name)
        await asyncio.sleep(max(0.0, began + max(fault.seconds, LEFT_SECONDS) - boottime()))
    finally:
        await _undo(stage, poison, name)
    record.write("poison removed", name=name)


async def _poison(connection: Connection, poison: Poison, name: str) -> None:
    """Nobody waits long behind it: who waits for a lock on a table holds up all that come after."""
    await connection.execute("SET lock_timeout = '50ms'")
    for _ in range(_TRIES):
        with contextlib.suppress(asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if not poison.forbids:
                await _write_past_the_rules(connection, poison, name)
                return
            await connection.execute(
                f"ALTER TABLE pgcron.run ADD CONSTRAINT {_rule(name)}"
                f" CHECK ({poison.forbids.format(n=name)}) NOT VALID"
            )
            return
        await asyncio.sleep(0.2)
    raise TimeoutError("the table was never free")


def _rule(name: str) -> str:
    return name.replace("-", "_")


async def _write_past_the_rules(connection: Connection, poison: Poison, name: str) -> None:
    rules = await connection.fetch(
        "SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint"
        f" WHERE conrelid = 'pgcron.{poison.table}'::regclass AND contype = 'c'"
    )
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        for rule in rules:
            await connection.execute(
                f"ALTER TABLE pgcron.{poison.table} DROP CONSTRAINT {rule['name']}"
            )
        for command in poison.bad:
            await connection.execute(command.format(n=name))
        for rule in rules:
            definition = rule["definition"].removesuffix(" NOT VALID")
            await connection.execute(
                f"ALTER TABLE pgcron.{poison.table} ADD CONSTRAINT {rule['name']}"
                f" {definition} NOT VALID"
            )


async def _wait_until_shown(stage: Stage, poison: Poison, name: str) -> None:
    """Until the overview names it, or the run has ended with the reason."""
    began = boottime()
    seconds: float | None = None
    problem: str | None = None
    while boottime() - began < SHOWN_SECONDS:
        try:
            if await _is_shown(stage, poison, name):
                seconds = boottime() - began
                break
        except Exception as error:  # another fault keeps it from being read
            problem = f"{type(error).__name__}: {error}"
        await asyncio.sleep(0.5)
    record.write("poison shown", what=poison.what, name=name, seconds=seconds, problem=problem)


async def _is_shown(stage: Stage, poison: Poison, name: str) -> bool:
    if poison.what == "run":
        return await _runs_are_over(stage, name)
    app = create_app(stage.dsn, version="chaos", entry=Entry(authenticate=_anybody))
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        page = await client.get("/?attention=all")
        page.raise_for_status()
        return name in html.unescape(page.text)


async def _anybody(request: object) -> Person:
    return LOCAL


async def _runs_are_over(stage: Stage, name: str) -> bool:
    """Whatever became of them, they are in nobody's way."""
    async with stage.connected("chaos-watch") as connection:
        left = f"SELECT NOT EXISTS (SELECT FROM pgcron.run WHERE args ->> 'poison' = '{name}')"
        return bool(await connection.fetchval(left))


async def _undo(stage: Stage, poison: Poison, name: str) -> None:
    if poison.forbids:
        await until_done(stage, f"ALTER TABLE pgcron.run DROP CONSTRAINT IF EXISTS {_rule(name)}")
    for command in poison.undo:
        with contextlib.suppress(asyncpg.UndefinedTableError):
            await until_done(stage, command.format(n=name))
