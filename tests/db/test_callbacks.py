"""What is kept of services that call back, and who may end a run with it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from tests.db import control
from tests.db.control import Connect, Connection, Node, Row, call

TOKEN = "t" * 43
HASH = hashlib.sha256(TOKEN.encode()).digest()
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("status", "result", "error", "retry_after", "done", "total", "note")),
    "lines": [],
}


@pytest.fixture
async def node(connection: Connection) -> Node:
    return await control.join(connection)


async def opened(connection: Connection, node: Node, **columns: Any) -> Row:
    """A claimed run that waits for its callback."""
    await control.enqueue(connection, **columns)
    (run,) = await control.claim(connection, node)
    assert await open_callback(connection, run)
    return run


async def open_callback(connection: Connection, run: Row) -> list[Row]:
    return await call(
        connection, "open_callback", run_id=run["id"], token=run["token"], token_hash=HASH
    )


async def answer(connection: Connection, run: Row, hashed: bytes = HASH, **said: Any) -> str:
    values = {**NOTHING, "run": run["id"], "fence": run["fence"], "token_hash": hashed, **said}
    (row,) = await call(connection, "answer_callback", **values)
    found: str = row[0]
    return found


async def close(connection: Connection, run: Row) -> Row:
    (row,) = await call(connection, "close_callback", run_id=run["id"], fence=run["fence"])
    return row


async def hear(connection: Connection, *runs: Row) -> list[Row]:
    return await call(
        connection,
        "hear_callbacks",
        run_ids=[run["id"] for run in runs],
        fences=[run["fence"] for run in runs],
    )


async def ended(connection: Connection, run: Row) -> Row:
    row = await connection.fetchrow("SELECT * FROM pgcron.history WHERE id = $1", run["id"])
    assert row is not None
    return row


async def test_an_end_is_taken_once_and_told_as_often_as_it_is_asked_for(
    connection: Connection, node: Node
) -> None:
    run = await opened(connection, node)

    assert await hear(connection, run) == []
    assert await answer(connection, run, status="succeeded", result='{"n": 1}') == "taken"
    assert await answer(connection, run, status="succeeded", result='{ "n":1 }') == "again"
    assert await answer(connection, run, status="succeeded", result="2") == "other"
    assert await answer(connection, run, status="failed", error="no") == "other"
    assert await answer(connection, run) == "gone"  # progress after the end
    for _ in range(2):
        (row,) = await hear(connection, run)
        assert (row["status"], json.loads(row["result"])) == ("succeeded", {"n": 1})


async def test_an_end_may_be_delivered_again_after_the_run_is_over(
    connection: Connection, node: Node
) -> None:
    run = await opened(connection, node)
    await answer(connection, run, status="succeeded")
    await control.finish(connection, [run])

    assert await answer(connection, run, status="succeeded") == "again"


async def test_a_token_is_that_of_one_attempt(connection: Connection, node: Node) -> None:
    run = await opened(connection, node)
    await control.kill(connection, node)
    await control.reap(connection)
    (second,) = await control.claim(connection, await control.join(connection))

    assert second["id"] == run["id"]
    assert await answer(connection, run, status="succeeded") == "gone"
    assert await answer(connection, second, status="succeeded") == "unknown"


@pytest.mark.parametrize(
    "hashed", [b"", b"x" * 31, b"x" * 32, b"x" * 33, HASH[:-1] + b"\0", b"\0" * 32]
)
async def test_a_wrong_token_and_a_run_that_does_not_exist_are_the_same(
    connection: Connection, node: Node, hashed: bytes
) -> None:
    run = await opened(connection, node)
    nowhere = {"id": 10**12, "fence": run["fence"]}
    other_fence = {"id": run["id"], "fence": run["fence"] + 1}

    for reported in (run, nowhere, other_fence):
        assert await answer(connection, reported, hashed, status="succeeded") == "unknown"  # type: ignore[arg-type]


async def test_lines_and_progress_are_fetched_once(connection: Connection, node: Node) -> None:
    run, other = await opened(connection, node), await opened(connection, node)
    await answer(connection, run, done=1, total=2, note="half", lines=["a", "b"])
    await answer(connection, run, lines=["c"])

    (row,) = await hear(connection, run, other)

    assert (row["done"], row["total"], row["note"]) == (1, 2, "half")
    assert row["lines"] == ["a", "b", "c"]
    assert await hear(connection, run, other) == []


async def test_lines_that_nobody_fetches_are_bounded(connection: Connection, node: Node) -> None:
    run = await opened(connection, node)
    for _ in range(12):
        await answer(connection, run, lines=["x"] * 100)

    (row,) = await hear(connection, run)

    assert len(row["lines"]) == 1000


async def test_nothing_is_taken_after_the_close_and_what_came_before_is_told(
    connection: Connection, node: Node
) -> None:
    first, second = await opened(connection, node), await opened(connection, node)
    await answer(connection, first, status="succeeded", result="1")

    assert (await close(connection, first))["status"] == "succeeded"
    assert (await close(connection, second))["status"] is None
    assert await answer(connection, second, status="succeeded") == "gone"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"status": "succeeded", "result": "[1]"}, "succeeded"),
        ({"status": "failed", "error": "no paper"}, "retry"),
        ({"status": "discarded", "error": "no such order"}, "dead"),
        ({"status": "retry", "error": "later", "retry_after": 3600}, "retry"),
        ({}, "retry"),
    ],
)
async def test_what_was_acknowledged_is_the_end_though_the_node_died(
    connection: Connection, node: Node, said: dict[str, Any], verdict: str
) -> None:
    run = await opened(connection, node)
    await answer(connection, run, **said)
    await control.kill(connection, node)

    assert await control.reap(connection) == {run["id"]: verdict}

    if verdict == "succeeded":
        row = await ended(connection, run)
        assert (row["outcome"], json.loads(row["result"]), row["fence"]) == (
            "succeeded",
            [1],
            run["fence"],
        )
        assert row["started_at"] is not None
        return
    [attempt] = await connection.fetch("SELECT * FROM pgcron.attempt WHERE run_id = $1", run["id"])
    assert attempt["outcome"] == ("failed" if said else "lease_lost")
    assert attempt["error"] == said.get("error", attempt["error"])
    if said.get("retry_after"):
        assert await connection.fetchval(
            "SELECT due_at > now() + interval '59 minutes' FROM pgcron.run"
        )


async def test_a_run_that_may_start_once_is_not_lost_when_its_service_has_answered(
    connection: Connection, node: Node
) -> None:
    run = await opened(connection, node, delivery="at_most_once")
    await answer(connection, run, status="succeeded")
    await control.kill(connection, node)

    assert await control.reap(connection) == {run["id"]: "succeeded"}


async def test_runs_of_one_dead_node_end_each_in_its_own_way(
    connection: Connection, node: Node
) -> None:
    runs = [await opened(connection, node) for _ in range(3)]
    await answer(connection, runs[0], status="discarded", error="no")
    await answer(connection, runs[1], status="succeeded")
    await control.kill(connection, node)

    verdicts = await control.reap(connection)

    assert [verdicts[run["id"]] for run in runs] == ["dead", "succeeded", "retry"]


async def test_an_answer_that_comes_while_the_run_is_taken_away_is_refused(
    connection: Connection, node: Node, another: Connect
) -> None:
    run = await opened(connection, node)
    await control.kill(connection, node)
    other = await another()
    async with connection.transaction():
        assert await control.reap(connection) == {run["id"]: "retry"}
        answering = asyncio.create_task(answer(other, run, status="succeeded"))
        await control.waits_for_lock(connection, other)
    assert await answering == "gone"


async def test_a_run_whose_answer_comes_is_taken_away_after_it(
    connection: Connection, node: Node, another: Connect
) -> None:
    run = await opened(connection, node)
    await control.kill(connection, node)
    other = await another()
    async with other.transaction():
        assert await answer(other, run, status="succeeded") == "taken"
        assert await control.reap(connection) == {}
    assert await control.reap(connection) == {run["id"]: "succeeded"}


async def test_callbacks_are_forgotten_after_a_day_unless_somebody_waits(
    connection: Connection, node: Node
) -> None:
    over, waits, fresh = [await opened(connection, node) for _ in range(3)]
    await control.finish(connection, [over, fresh])
    await connection.execute(
        "UPDATE pgcron.callback SET opened_at = now() - interval '25 hours' WHERE run_id <> $1",
        fresh["id"],
    )

    await call(connection, "forget_callbacks", at_most=10)

    left = await connection.fetch("SELECT run_id FROM pgcron.callback ORDER BY run_id")
    assert [row["run_id"] for row in left] == [waits["id"], fresh["id"]]
