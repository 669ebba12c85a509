"""Lines of runs whose node has another time than the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.db.control import Connection, call, claim, enqueue, join


@pytest.mark.parametrize("days", [-30, -7, 7, 30, 40000])
async def test_the_lines_of_a_node_whose_clock_is_off_are_kept(
    connection: Connection, days: int
) -> None:
    await enqueue(connection)
    [run] = await claim(connection, await join(connection))
    at = datetime.now(UTC) + timedelta(days=days)
    given = {
        "run_ids": [run["id"]] * 2,
        "tokens": [run["token"]] * 2,
        "sequences": [1, 2],
        "times": [at, at + timedelta(seconds=1)],
        "streams": ["stdout", "stdout"],
        "lines": ["one", "two"],
    }

    await call(connection, "append_lines", **given)
    await call(connection, "append_lines_again", **given, fences=[run["fence"]] * 2)

    rows = await connection.fetch("SELECT line, at FROM pgcron.log ORDER BY sequence")
    assert [row["line"] for row in rows] == ["one", "two"]
    now = await connection.fetchval("SELECT now()")
    claimed_at = await connection.fetchval("SELECT claimed_at FROM pgcron.run")
    assert all(claimed_at <= row["at"] <= now for row in rows)


async def test_progress_is_not_of_the_future(connection: Connection) -> None:
    await enqueue(connection)
    [run] = await claim(connection, await join(connection))
    await call(
        connection,
        "put_progress",
        run_ids=[run["id"]],
        tokens=[run["token"]],
        times=[datetime.now(UTC) + timedelta(days=7)],
        dones=[1.0],
        totals=[None],
        notes=[None],
    )
    assert await connection.fetchval("SELECT at <= now() FROM pgcron.progress")
