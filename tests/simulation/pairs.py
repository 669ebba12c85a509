"""Two statements at the same time, held at every border that a statement has.

A border lies behind its snapshot and before its row locks (a gate stands there), and between its
end and its commit. Whatever border the other one passes: what is left, and what both have said,
must be what one after the other would do, or what the one would do if the other had found nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import asyncpg

from pgcron_ha.errors import PgcronError
from tests.db.gate import Gate
from tests.product.db import NEWEST, answers, connect, load
from tests.replacing import replaced
from tests.simulation.acts import ACTS, SCENES, Scene
from tests.simulation.real import (
    CHANCE,
    TABLES,
    RealStore,
    dead_letters_of_stand_in,
    history_of_stand_in,
    of_stand_in,
)
from tests.simulation.store import Store
from tests.simulation.tables import FIRST_INSTANT, seconds

State = tuple[tuple[str, str], ...]

# What may be said of rows that the other one has ended or taken: not found, conflict.
_REFUSALS: Final = ("PC010", "PC011")

_LOOK_SECONDS: Final = 0.001
_TABLES: Final = (
    *("run", "history", "occurrence", "missed", "attempt", "dead_letter", "cursor"),
    *("schedule_version", "schedule", "offer", "node", "queue", "idempotency", "log"),
)
# What each side chooses freely.
_FREE: Final = {"token", "fence"}
_RUN_IDS: Final = {"id", "run_id", "parent_run", "requeued_as"}


class Expected:
    """What the stand-in allows, by scene and order of acts."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], State] = {}

    def allowed(self, scene: str, first: str, second: str) -> set[State]:
        """One after the other, in both orders; or one of them alone: the other passed by."""
        orders = ((first, second), (second, first), (first,), (second,))
        return {self.after(scene, order) for order in orders}

    def after(self, scene: str, acts: tuple[str, ...]) -> State:
        if (scene, acts) not in self._known:
            self._known[scene, acts] = self._play(scene, acts)
        return self._known[scene, acts]

    def _play(self, scene: str, acts: tuple[str, ...]) -> State:
        clock = [FIRST_INSTANT]
        store = _Sure(lambda: clock[0])

        def pass_time(passed: float) -> None:
            clock[0] += seconds(passed)

        setup = SCENES[scene][0](store.call, pass_time)
        for act in acts:
            name, parameters = ACTS[act](setup)
            try:
                store.call(name, **parameters)
            except PgcronError:
                pass
        return canonical(
            {table: of_stand_in(store, table) for table in TABLES}
            | {
                "history": history_of_stand_in(store),
                "dead": dead_letters_of_stand_in(store),
                "queues": [{"name": name} for name in sorted(store.paused_queues)],
            }
        )


class _Sure(Store):
    def part(self) -> float:
        return CHANCE


class Pairs:
    """A database with a gate, and two sessions that act in it."""

    def __init__(self, dsn: str) -> None:
        self._real = RealStore(dsn)
        self._gate = Gate(dsn, self._real.connection)
        self._statements = load(revision=NEWEST)
        self._wait = self._real.wait
        self._wait(self._gate.build())
        self._visitor = self._wait(self._gate.visitor())
        self._other = self._wait(connect(dsn))
        self.held = 0
        """How often a statement was seen to stand at a border."""

    def close(self) -> None:
        self._wait(self._other.close(timeout=5))
        self._wait(self._gate.remove())
        self._real.close()

    def rewrite(self, function: str, old: str, new: str) -> None:
        """Another text of a function of ours, for this database."""
        named = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1"
        text: str = self._wait(self._real.connection.fetchval(named, function))
        self._wait(self._real.connection.execute(replaced(text, old, new)))

    def at_the_gate(self, scene: str, first: str, second: str) -> State:
        """The second runs while the first stands between its snapshot and its row locks."""
        return self._play(scene, lambda setup: self._gated(setup, first, second))

    def before_the_commit(self, scene: str, first: str, second: str, commits: bool) -> State:
        """The second begins when the first has ended and is not committed yet."""
        return self._play(scene, lambda setup: self._open(setup, first, second, commits))

    def _play(self, scene: str, acting: Callable[[Scene], Any]) -> State:
        self._wait(self._empty())
        self._real.set_clock(FIRST_INSTANT)
        setup = SCENES[scene][0](self._real.call, self._pass_time)
        self._wait(self._acting(setup, acting))
        return self._state()

    async def _acting(self, setup: Scene, acting: Callable[[Scene], Any]) -> None:
        await self._real.another(self._visitor)
        await self._real.another(self._other)
        await acting(setup)

    async def _gated(self, setup: Scene, first: str, second: str) -> None:
        async with self._gate.closed():
            one = asyncio.create_task(self._send(self._visitor, setup, first))
            await self._until_it_stands(one, self._visitor)
            two = asyncio.create_task(self._send(self._other, setup, second))
            await self._until_it_stands(two, self._other)
        await asyncio.gather(one, two)

    async def _open(self, setup: Scene, first: str, second: str, commits: bool) -> None:
        transaction = self._other.transaction()
        await transaction.start()
        has_failed = await self._send(self._other, setup, first)
        two = asyncio.create_task(self._send(self._visitor, setup, second))
        await self._until_it_stands(two, self._visitor)
        await (transaction.commit() if commits and not has_failed else transaction.rollback())
        await two

    async def _send(self, connection: asyncpg.Connection, setup: Scene, act: str) -> bool:
        """Whether it was refused by an error of ours; any other error is a fault."""
        name, parameters = ACTS[act](setup)
        statement = self._statements[name]
        arguments = [parameters[parameter] for parameter in statement.parameters]
        try:
            with answers():
                await connection.fetch(statement.sql, *arguments)
        except PgcronError as error:
            if type(error).sqlstate not in _REFUSALS:
                raise
            return True
        return False

    async def _until_it_stands(self, task: asyncio.Task[bool], who: asyncpg.Connection) -> None:
        """Returns when it is done, or waits for somebody's lock."""
        query = "SELECT cardinality(pg_blocking_pids($1)) > 0"
        while True:
            done, _ = await asyncio.wait({task}, timeout=_LOOK_SECONDS)
            if done:
                return
            if await self._real.connection.fetchval(query, who.get_server_pid()):
                self.held += 1
                return

    async def _empty(self) -> None:
        # Without triggers: one of them writes what the deleted schedule owed.
        deletes = [f"DELETE FROM pgcron.{table}" for table in _TABLES]
        role = "session_replication_role"
        commands = (f"SET {role} = replica", *deletes, f"RESET {role}")
        await self._real.connection.execute("; ".join(commands))

    def _pass_time(self, passed: float) -> None:
        self._real.set_clock(self._real.now + seconds(passed))

    def _state(self) -> State:
        paused = "SELECT name FROM pgcron.queue WHERE paused_at IS NOT NULL ORDER BY name"
        queues = self._wait(self._real.connection.fetch(paused))
        return canonical(
            {table: self._real.rows(table) for table in TABLES}
            | {
                "history": self._real.history(),
                "dead": self._real.dead_letters(),
                "queues": [dict(row) for row in queues],
            }
        )


def canonical(tables: dict[str, list[dict[str, Any]]]) -> State:
    """Without what is chosen freely: runs by what they are for, tokens by whether there are any."""
    runs = {row["id"]: row for table in ("runs", "history") for row in tables[table]}
    order = sorted(runs, key=lambda run: (_purpose(runs[run]), run))
    names = {run: f"run {place}, {_purpose(runs[run])}" for place, run in enumerate(order)}
    schedules = {row["schedule_id"] for rows in tables.values() for row in rows if _of_one(row)}
    keys = {schedule: f"schedule {place}" for place, schedule in enumerate(sorted(schedules))}
    return tuple(
        (table, str(sorted(_plain(table, row, names, keys) for row in rows)))
        for table, rows in tables.items()
    )


def _of_one(row: dict[str, Any]) -> bool:
    return row.get("schedule_id") is not None


def _purpose(run: dict[str, Any]) -> str:
    return f"{run['origin']} {run['scheduled_for'] or run['nominal_for']}"


def _plain(
    table: str, row: dict[str, Any], runs: dict[int, str], schedules: dict[int, str]
) -> list[tuple[str, str]]:
    named = dict(row)
    for key in _RUN_IDS & row.keys():
        if key != "id" or table in ("runs", "history"):
            named[key] = runs.get(row[key], row[key] and "a run that is gone")
    if _of_one(row):
        named["schedule_id"] = schedules[row["schedule_id"]]
    if table == "schedules":
        named["id"] = "its id"
    for key in _FREE & row.keys():
        named[key] = row[key] is not None
    return sorted((key, str(value)) for key, value in named.items())


def difference(found: State, allowed: set[State]) -> str:
    """What the found state has that the nearest allowed one has not, and the other way round."""

    def distance(state: State) -> int:
        return sum(own != theirs for own, theirs in zip(found, state, strict=True))

    nearest = min(allowed, key=distance)
    lines = [
        f"{own[0]}:\n  found   {own[1]}\n  allowed {theirs[1]}"
        for own, theirs in zip(found, nearest, strict=True)
        if own != theirs
    ]
    return "\n".join(lines)
