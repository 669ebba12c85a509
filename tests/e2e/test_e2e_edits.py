"""Schedules that are edited by plain SQL while their fires are claimed."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from tests.e2e.ledger import Connection, unaccounted
from tests.e2e.nodes import Cluster
from tests.pooler import straight
from tests.product.spec import parse_spec
from tests.sessions import own_session
from tests.waiting import until

SCHEDULES = 20
EDITS = 10
SPECS = ["* * * * * *", "*/2 * * * * *", "every 1s", "1-59/2 * * * * *", "*/3 * * * * *"]


@dataclass
class Reign:
    """From when on a schedule was such."""

    since: datetime
    spec: str
    enabled: bool


@pytest.mark.long
async def test_no_fire_is_lost_or_runs_twice_while_its_schedule_is_edited(
    cluster: Cluster, connection: Connection, database: str
) -> None:
    for name in ("a", "b"):
        cluster.start(name, horizon="4s", slots=32)
    names = [f"s{number}" for number in range(SCHEDULES)]

    histories = await asyncio.gather(*(edit_again_and_again(database, name) for name in names))
    await until("all have run", lambda: nothing_lives(connection))

    total = 0
    for name, reigns in zip(names, histories, strict=True):
        total += await accounted(connection, name, reigns)
    print(f"{total} fires under {SCHEDULES * EDITS} edits")
    assert total > SCHEDULES * EDITS / 3
    assert await unaccounted(connection) == 0
    starts = Counter(event.run for event in cluster.evidence.events("start"))
    assert set(starts.values()) == {1}


async def edit_again_and_again(dsn: str, name: str) -> list[Reign]:
    """What the schedule was, and since when."""
    connection = await own_session(straight(dsn))
    chance = random.Random(name)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, overlap)"
        " VALUES ($1, $2, 'py:work', 'allow')",
        name,
        SPECS[0],
    )
    reigns = [await reign(connection, name)]
    for number in range(EDITS):
        await decided(connection, name)
        await edit(connection, name, number, chance)
        reigns.append(await reign(connection, name))
    await decided(connection, name)
    await connection.execute("UPDATE pgcron.schedule SET enabled = false WHERE name = $1", name)
    reigns.append(await reign(connection, name))
    await connection.close()
    return reigns


async def accounted(connection: Connection, name: str, reigns: list[Reign]) -> int:
    """Every owed fire is in the ledger exactly once, and nothing else; how many were owed."""
    identity = await connection.fetchval("SELECT id FROM pgcron.schedule WHERE name = $1", name)
    fires = {
        row["fire_at"]: row["decision"]
        for row in await connection.fetch(
            "SELECT * FROM pgcron.occurrence WHERE schedule_id = $1", identity
        )
    }
    missed = await connection.fetch("SELECT * FROM pgcron.missed WHERE schedule_id = $1", identity)
    owed: set[datetime] = set()
    for one, following in itertools.pairwise(reigns):
        for fire in parse_spec(one.spec).between(one.since, following.since, 10_000):
            ranges = [m["reason"] for m in missed if m["first_at"] <= fire <= m["last_at"]]
            if one.enabled:
                owed.add(fire)
                assert (fires.get(fire), ranges) in [("run", []), (None, ["catchup_latest"])], (
                    name,
                    fire,
                    one,
                )
            elif following is not reigns[-1]:
                assert (fire in fires, ranges) in [(False, ["paused"]), (False, [])], (name, fire)
    assert set(fires) <= owed, name
    return len(owed)


async def edit(connection: Connection, name: str, number: int, chance: random.Random) -> None:
    """One of the edits people make, at any moment of a second, in a transaction that takes time."""
    what = chance.choice(["spec", "args", "pause", "resume", "both"])
    changes = {
        "spec": "spec = $2, enabled = true",
        "args": "args = jsonb_build_object('seconds', 0.0005 * $3::int), enabled = true",
        "pause": "enabled = NOT enabled",
        "resume": "enabled = true",
        "both": "spec = $2, enabled = NOT enabled",
    }
    async with connection.transaction():
        await connection.execute("SELECT pg_sleep($1)", chance.random() * 1.4)
        await connection.execute(
            f"UPDATE pgcron.schedule SET {changes[what]}"
            " WHERE name = $1 AND $2::text <> '' AND $3::int >= 0",
            name,
            chance.choice(SPECS),
            number,
        )
        await connection.execute("SELECT pg_sleep($1)", chance.random() * 0.1)


async def reign(connection: Connection, name: str) -> Reign:
    row = await connection.fetchrow(
        "SELECT c.since, s.spec, s.enabled FROM pgcron.schedule s"
        " JOIN pgcron.cursor c ON c.schedule_id = s.id WHERE s.name = $1",
        name,
    )
    assert row is not None
    return Reign(row["since"], row["spec"], row["enabled"])


async def decided(connection: Connection, name: str) -> None:
    """What is edited before a node has looked at it is decided as it stands afterwards; here each
    edit meets fires that are decided.
    """

    async def is_decided() -> bool:
        row = await connection.fetchrow(
            "SELECT c.* FROM pgcron.cursor c JOIN pgcron.schedule s ON s.id = c.schedule_id"
            " WHERE s.name = $1",
            name,
        )
        assert row is not None
        return bool(row["is_paused"] or row["watermark"] > row["since"] + timedelta(seconds=1))

    await until(f"{name} is decided", is_decided)


async def nothing_lives(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM pgcron.run")
