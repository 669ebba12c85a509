"""Whoever claims a run learns how it came about."""

from __future__ import annotations

from datetime import timedelta
from operator import itemgetter

from tests.db.control import (
    Connection,
    Node,
    claim,
    claim_limited,
    claim_overlapping,
    cursor_of,
    enqueue,
    fail,
    join,
    materialize,
    put_schedule,
)


async def origins_of_schedules(connection: Connection, node: Node) -> list[str]:
    return [row["origin"] for row in (await claim_overlapping(connection, node))[0]]


async def test_plain_runs_and_those_of_at_most_once_tell_their_origin(
    connection: Connection,
) -> None:
    node = await join(connection)
    await enqueue(connection, max_attempts=1)
    await enqueue(connection, delivery="at_most_once")

    plain, once = sorted(await claim(connection, node), key=itemgetter("id"))
    assert (plain["origin"], once["origin"]) == ("enqueued", "enqueued")

    await fail(connection, [plain])
    await connection.execute("SELECT pgcron.retry_run($1)", plain["id"])
    [again] = await claim(connection, node)
    assert again["origin"] == "rerun"


async def test_fires_and_runs_by_hand_tell_their_origin_under_each_overlap_policy(
    connection: Connection,
) -> None:
    node = await join(connection)
    for overlap in ("skip", "queue"):
        schedule = await put_schedule(connection, name=overlap, overlap=overlap)
        await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
        cursor = await cursor_of(connection, schedule)
        await materialize(connection, cursor, [cursor["watermark"] + timedelta(minutes=1)])
        assert await origins_of_schedules(connection, node) == ["schedule"]
        await connection.execute("DELETE FROM pgcron.run")

        await connection.execute("SELECT pgcron.run_now($1)", overlap)
        assert await origins_of_schedules(connection, node) == ["manual"]


async def test_runs_with_a_key_tell_their_origin(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.enqueue('py:work', concurrency_key => 'customer 7')")
    assert [row["origin"] for row in await claim_limited(connection, node)] == ["enqueued"]
