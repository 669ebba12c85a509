"""The schedules of a chaos run, and their edits by plain SQL (nemesis N17).

Every version of a schedule carries the number of the operation that wrote it in its args, so that
what is found afterwards can be laid beside what was asked, also when no answer came.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from typing import Any

from tests.chaos.clients import RETRY, Client
from tests.chaos.composing import Fault
from tests.chaos.stage import HORIZON_SECONDS, Stage

SPECS = (
    "* * * * * *",
    "*/2 * * * * *",
    "1-59/3 * * * * *",
    "0,7,20-25,40 * * * * *",
    "* 0-29 * * * *",
    "* * * * *",
    "every 2s from 2026-01-01T00:00Z",
)
ZONES = ("UTC", "Asia/Kolkata", "Europe/Berlin", "America/St_Johns")
KINDS = ("spec", "spec", "spec", "pause", "pause", "resume", "resume", "zone", "overlap", "again")
EDITED = 6
"""Schedules that the editor owns."""


@dataclass(frozen=True)
class Definition:
    """A schedule as a client writes it. `seconds` is how long its runs last."""

    name: str
    handler: str
    spec: str = "* * * * * *"
    overlap: str = "skip"
    seconds: float = 0.3
    delivery: str = "at_least_once"
    catchup: str = "latest"
    timezone: str = "UTC"

    def args(self) -> dict[str, Any]:
        """With the key, which the handler writes into its evidence."""
        concurrency_key = self.name if self.overlap == "skip" else None
        args: dict[str, Any] = {"seconds": round(self.seconds, 2)}
        if self.handler == "shell:program":
            return args | {"concurrency_key": concurrency_key or "none"}
        return args | ({"concurrency_key": concurrency_key} if concurrency_key else {})


def definitions(ttl: float) -> list[Definition]:
    """Every policy, every kind of handler, runs shorter and longer than a lease."""
    return [
        Definition("a1", "py:work", overlap="allow"),
        Definition("a2", "py:work", overlap="allow", seconds=0.05, catchup="none"),
        Definition("a3", "py:thread", overlap="allow", spec="*/2 * * * * *"),
        Definition("a4", "shell:program", overlap="allow", spec="*/3 * * * * *", seconds=0.4),
        Definition("s1", "py:work", seconds=0.7),
        Definition("s2", "py:work", seconds=1.3),
        Definition("s3", "py:work", seconds=1.6 * ttl),
        Definition("s4", "py:thread", seconds=0.8 * ttl),
        Definition("s5", "py:unresponsive", seconds=1.4),
        Definition("s6", "shell:program", seconds=1.2 * ttl),
        Definition("s7", "py:unresponsive", seconds=2.2 * ttl),
        Definition("o1", "py:work", overlap="allow", delivery="at_most_once"),
        Definition("o2", "py:work", delivery="at_most_once", seconds=0.6),
        Definition("l1", "py:ledger", overlap="allow", spec="*/2 * * * * *", seconds=0.1),
        Definition("m1", "py:work", spec="*/5 * * * * *", catchup="none", timezone=ZONES[1]),
    ] + [
        Definition(f"e{number}", "py:work", overlap=("skip", "allow")[number % 2], seconds=0.5)
        for number in range(EDITED)
    ]


_CREATE = (
    "INSERT INTO pgcron.schedule (name, spec, handler, args, overlap, delivery, catchup, timezone,"
    " max_attempts, retry)"
    " SELECT $2, $3, $4, $5::jsonb || CASE WHEN $4 LIKE 'py:%' THEN jsonb_build_object('op',"
    " $1::int) ELSE '{}' END, $6, $7, $8, $9, CASE $7 WHEN 'at_most_once' THEN 1 ELSE 100 END,"
    f" {RETRY} RETURNING id"
)


async def create(client: Client, definition: Definition) -> int | None:
    """The schedule's id, or None when the answer did not come."""
    d = definition
    values = (d.name, d.spec, d.handler, json.dumps(d.args()), d.overlap, d.delivery)
    found: int | None = await client.ask(
        "create", _CREATE, *values, d.catchup, d.timezone, name=d.name
    )
    return found


_STAMP = "|| jsonb_build_object('op', $1::int)"
"""What every edit adds to the args it writes."""


async def edit_schedules(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N17: spec, zone, overlap, pause and resume, delete and create anew, roll back, take long."""
    client = Client(stage, fault.seed)
    loop = asyncio.get_running_loop()
    end = loop.time() + fault.seconds
    name = "e0"
    while True:
        if chance.random() < 0.5:
            name = f"e{chance.randrange(EDITED)}"
        await _one_edit(client, name, stage.settings.ttl)
        if loop.time() >= end:
            break
        # Two edits within one pass of a materializer are the ones that hurt.
        await asyncio.sleep(chance.choice([0.0, 0.05, 0.3, 1.0]))
    await _resume_all(client)
    client.forget_connection()


async def edit_behind_a_lock(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N17: somebody sits on a run of the schedule, so the edit waits while fires become due."""
    client = Client(stage, fault.seed)
    name = f"e{chance.randrange(EDITED)}"
    every_second = f"UPDATE pgcron.schedule SET spec = $3, enabled = true, args = args {_STAMP}"
    edit = f"{every_second} WHERE name = $2 RETURNING id"
    facts: dict[str, Any] = {"name": name, "is_late": False}
    await client.ask("edit", edit, name, "* * * * * *", **facts)
    await asyncio.sleep(0.7)  # until there are fires ahead
    async with stage.connected("chaos-nemesis") as connection:
        await connection.execute("BEGIN")
        held = await connection.fetchval(
            "SELECT r.id FROM pgcron.run r JOIN pgcron.schedule s ON s.id = r.schedule_id"
            " WHERE s.name = $1 AND r.state = 'ready' AND r.attempt = 0 AND r.due_at > now()"
            " ORDER BY r.id LIMIT 1 FOR UPDATE OF r",
            name,
        )
        editing = asyncio.create_task(client.ask("edit", edit, name, "*/2 * * * * *", **facts))
        await asyncio.sleep(min(3.0, max(1.5, fault.seconds)) if held is not None else 0.0)
        await connection.execute("ROLLBACK")
        await editing
    client.forget_connection()


async def pause_after_an_edit(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N17: a pause right after an edit, while nodes decide on what the edit has made."""
    client = Client(stage, fault.seed)
    loop = asyncio.get_running_loop()
    end = loop.time() + fault.seconds
    while True:
        name = f"e{chance.randrange(EDITED)}"
        for change in ("spec = $3, enabled = true", "spec = $3, enabled = false"):
            query = f"UPDATE pgcron.schedule SET {change}, args = args {_STAMP} WHERE name = $2"
            await client.ask(
                "edit", f"{query} RETURNING id", name, "* * * * * *", name=name, is_late=False
            )
            # Long enough to be read by every node, too short to be decided by a slow one.
            await asyncio.sleep(chance.uniform(0.05, 0.2))
        await asyncio.sleep(chance.uniform(0.5, 1.5) * stage.settings.ttl)
        if loop.time() >= end:
            break
    await _resume_all(client)
    client.forget_connection()


async def wake_a_sleeper(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N17: what fired once a year, and nobody has looked at for a while, fires every second."""
    client = Client(stage, fault.seed)
    name = f"e{chance.randrange(EDITED)}"
    query = f"UPDATE pgcron.schedule SET spec = $3, enabled = true, args = args {_STAMP}"
    for spec in ("0 0 1 1 *", "* * * * * *"):
        await client.ask(
            "edit", f"{query} WHERE name = $2 RETURNING id", name, spec, name=name, is_late=False
        )
        await asyncio.sleep(HORIZON_SECONDS + chance.uniform(3.0, 5.0))
    client.forget_connection()


async def _one_edit(client: Client, name: str, ttl: float) -> None:
    chance = client.chance
    kind = chance.choice(KINDS)
    if kind == "again":
        await _create_anew(client, name)
        return
    change, values = _change(chance, kind, name)
    query = f"UPDATE pgcron.schedule SET {change} {_STAMP} WHERE name = $2 RETURNING id"
    manner = chance.random()
    block: dict[str, Any] = {}
    if manner < 0.15:
        block = {"begin": "BEGIN", "linger": chance.uniform(0.1, 0.8) * ttl}
    elif manner < 0.25:
        block = {"begin": "BEGIN", "rolls_back": True, "linger": chance.uniform(0.0, 0.3) * ttl}
    elif manner < 0.35:
        block = {"begin": "BEGIN ISOLATION LEVEL REPEATABLE READ"}
    is_late = "REPEATABLE" in block.get("begin", "")
    await client.ask_in_transaction(
        "edit", [(query, (name, *values))], name=name, is_late=is_late, **block
    )


def _change(chance: random.Random, kind: str, name: str) -> tuple[str, tuple[str, ...]]:
    """What to set, with values from `$3` on."""
    if kind == "spec":
        return "spec = $3, args = args", (chance.choice(SPECS),)
    if kind == "zone":
        return "timezone = $3, args = args", (chance.choice(ZONES),)
    if kind == "overlap":
        overlap = chance.choice(["skip", "allow"])
        if overlap == "skip":
            return "overlap = $3, args = args || jsonb_build_object('concurrency_key', $2::text)", (
                overlap,
            )
        return "overlap = $3, args = (args - 'concurrency_key')", (overlap,)
    return f"enabled = {'false' if kind == 'pause' else 'true'}, args = args", ()


async def _create_anew(client: Client, name: str) -> None:
    await client.ask(
        "delete",
        "DELETE FROM pgcron.schedule WHERE name = $2 AND $1::int > 0 RETURNING id",
        name,
        name=name,
    )
    await create(client, Definition(name, "py:work", overlap="allow", seconds=0.4))


async def _resume_all(client: Client) -> None:
    for number in range(EDITED):
        name = f"e{number}"
        change = f"enabled = true, args = args {_STAMP}"
        query = f"UPDATE pgcron.schedule SET {change} WHERE name = $2 RETURNING id"
        await client.ask("edit", query, name, name=name, is_late=False)


async def pause_all(client: Client) -> bool:
    """The end of the play: no more fires from now on. Whether the server said so."""
    query = "UPDATE pgcron.schedule SET enabled = false WHERE $1::int > 0 RETURNING true"
    return bool(await client.ask("pause all", query))
