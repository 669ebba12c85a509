"""What a node whose runs are short claims beyond its free slots, of runs with a capacity gate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.db.control import Connection, claim_limited, enqueue, join

KEYED_ONCE: dict[str, Any] = {"concurrency_key": "a", "delivery": "at_most_once"}


@pytest.mark.parametrize(
    ("setting", "columns"),
    [
        ("SELECT pgcron.set_concurrency('a', NULL, 100, '1 minute')", {"concurrency_key": "a"}),
        ("SELECT pgcron.set_queue('default', NULL, 100, '1 minute')", {}),
        ("SELECT pgcron.set_concurrency('a', NULL)", KEYED_ONCE),
    ],
)
async def test_what_a_rate_counts_or_may_begin_only_once_is_never_claimed_ahead(
    connection: Connection, setting: str, columns: dict[str, Any]
) -> None:
    node = await join(connection)
    await connection.execute(setting)
    await enqueue(connection, 6, **columns)

    claimed = await claim_limited(connection, node, free=2, ahead=3)

    assert len(claimed) == 2


@pytest.mark.parametrize("columns", [{"concurrency_key": "a"}, {"requires": ["x=1"]}])
async def test_a_few_more_are_claimed_ahead(
    connection: Connection, columns: dict[str, Any]
) -> None:
    node = await join(connection, labels={"x": "1"})
    await connection.execute("SELECT pgcron.set_concurrency('*', NULL)")
    await enqueue(connection, 6, **columns)

    claimed = await claim_limited(connection, node, free=2, ahead=3)

    assert len(claimed) == 5


async def test_the_weight_of_a_run_that_is_claimed_ahead_counts_and_its_slots_are_free(
    connection: Connection,
) -> None:
    node = await join(connection)
    await enqueue(connection, 6, weight=2, concurrency_key="*weight 2")
    await enqueue(connection, 1, weight=3, concurrency_key="*weight 3")

    claimed = await claim_limited(connection, node, free=2, ahead=3)

    assert [run["weight"] for run in claimed] == [2, 2]


async def test_what_is_claimed_ahead_keeps_to_the_limits(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('*', 2)")
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 5)")
    for concurrency_key in "abc":
        await enqueue(connection, 3, concurrency_key=concurrency_key)
    await enqueue(connection, 3)

    claimed = await claim_limited(connection, node, free=2, ahead=2)
    assert len(claimed) == 4
    claimed += await claim_limited(connection, node, free=9, ahead=9)

    assert len(claimed) == 5
    keys = [run["concurrency_key"] for run in claimed if run["concurrency_key"]]
    assert max(keys.count(each) for each in "abc") <= 2


async def test_without_a_free_slot_nothing_is_claimed_ahead(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 2, concurrency_key="a")

    assert await claim_limited(connection, node, free=0, ahead=3) == []
