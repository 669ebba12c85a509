"""Concurrency keys whose slots count the weight of runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.db.control import (
    Connect,
    Connection,
    claim_limited,
    enqueue,
    finish,
    join,
    kill,
    reap,
    release,
)
from tests.db.test_scale_demand import demand
from tests.db.test_waits import waits
from tests.product.db import overview


async def count_weight(connection: Connection, key: str, slots: int | None) -> None:
    await connection.execute(
        "SELECT pgcron.set_concurrency($1, slots => $2, by_weight => true)", key, slots
    )


async def enqueue_weights(connection: Connection, *weights: int, **columns: Any) -> list[int]:
    given = {"concurrency_key": "a", **columns}
    return [(await enqueue(connection, weight=weight, **given))[0] for weight in weights]


@pytest.mark.parametrize(
    ("slots", "weights", "claimed"),
    [
        (8, [4, 3, 2, 1], [4, 3]),  # 1 would pass 2, which waits for its slots
        (8, [1] * 9, [1] * 8),
        (8, [9, 8, 1], [8]),  # what is too heavy for the key stands in nobody's way
        (8, [8, 8], [8]),
        (1, [2, 1, 1], [1]),
        (None, [9, 9, 9], [9, 9, 9]),
    ],
)
async def test_the_weights_of_a_keys_runs_are_together_at_most_its_slots(
    connection: Connection, slots: int | None, weights: list[int], claimed: list[int]
) -> None:
    node = await join(connection, slots=30)
    await count_weight(connection, "a", slots)
    await enqueue_weights(connection, *weights)

    held = await claim_limited(connection, node, 30)

    assert [run["weight"] for run in held] == claimed
    assert await claim_limited(connection, node, 30) == []


async def test_what_its_key_or_each_node_is_too_small_for_hides_no_other(
    connection: Connection,
) -> None:
    node = await join(connection, slots=4)
    await count_weight(connection, "a", 8)
    await enqueue_weights(connection, *[9] * 20, *[5] * 20, 2, 1)

    assert [run["weight"] for run in await claim_limited(connection, node, 4)] == [2, 1]


async def test_what_its_own_nodes_are_too_small_for_hides_no_other(connection: Connection) -> None:
    """The node that is large enough does not offer its handler."""
    node = await join(connection, slots=8)
    await join(connection, handlers=["py:other"], slots=16)
    await count_weight(connection, "a", 12)
    await enqueue_weights(connection, 4)
    await claim_limited(connection, node, 8)
    await enqueue_weights(connection, *[9] * 20)
    light, _ = await enqueue_weights(connection, 2, 1)

    waits_for, _ = await waits(connection, light)
    assert waits_for == "slots"
    assert await demand(connection) == 4 + 2 + 1
    assert [run["weight"] for run in await claim_limited(connection, node, 4)] == [2, 1]


async def test_a_heavy_run_waits_in_its_key_until_enough_have_ended(connection: Connection) -> None:
    """Neither lighter ones of its key nor another node's pass it; other keys go on."""
    node, small = await join(connection, slots=16), await join(connection, slots=16)
    await count_weight(connection, "a", 8)
    await enqueue_weights(connection, 3, 3)
    first, second = await claim_limited(connection, node, 16)
    await enqueue_weights(connection, 8, 1)
    [other] = await enqueue(connection, concurrency_key="b")

    assert [run["id"] for run in await claim_limited(connection, small, 2)] == [other]
    await finish(connection, [first])
    assert await claim_limited(connection, small, 2) == []
    await finish(connection, [second])
    assert [run["weight"] for run in await claim_limited(connection, node, 16)] == [8]


@pytest.mark.parametrize("ended_by", ["finish", "release", "reap"])
async def test_all_slots_of_a_run_are_free_when_it_does_not_run_any_more(
    connection: Connection, ended_by: str
) -> None:
    node, living = await join(connection, slots=16), await join(connection, slots=16)
    await count_weight(connection, "a", 8)
    await enqueue_weights(connection, 8, 8)
    held = await claim_limited(connection, node, 16)
    assert len(held) == 1
    if ended_by == "reap":
        await kill(connection, node)
        await reap(connection)
    else:
        await {"finish": finish, "release": release}[ended_by](connection, held)

    assert [run["weight"] for run in await claim_limited(connection, living, 16)] == [8]


async def test_runs_that_were_counted_one_by_one_weigh_what_they_weigh(
    connection: Connection,
) -> None:
    node = await join(connection, slots=16)
    await connection.execute("SELECT pgcron.set_concurrency('a', 3)")
    await enqueue_weights(connection, 4, 4, 1)
    held = await claim_limited(connection, node, 8)
    assert [run["weight"] for run in held] == [4, 4]

    await count_weight(connection, "a", 8)
    assert await claim_limited(connection, node, 8) == []
    await connection.execute("SELECT pgcron.set_concurrency('a', 3)")
    assert [run["weight"] for run in await claim_limited(connection, node, 8)] == [1]


async def test_weight_and_a_rate_count_together(connection: Connection) -> None:
    node = await join(connection, slots=16)
    await connection.execute(
        "SELECT pgcron.set_concurrency('a', 8, 2, '1 hour', by_weight => true)"
    )
    await enqueue_weights(connection, 2, 2, 2)

    assert len(await claim_limited(connection, node, 16)) == 2
    assert await claim_limited(connection, node, 16) == []


async def test_a_run_says_what_it_waits_for_in_a_key_that_counts_weight(
    connection: Connection,
) -> None:
    node = await join(connection, slots=16)
    await count_weight(connection, "a", 8)
    await enqueue_weights(connection, 5)
    await claim_limited(connection, node, 16)
    heavy, heavier, behind = await enqueue_weights(connection, 4, 9, 1)

    free = "takes 4 slots of its concurrency key a, of which 3 are free"
    assert await waits(connection, heavy) == ("key_limit", f"it {free}")
    assert await waits(connection, heavier) == (
        "key_limit",
        "it takes 9 slots of its concurrency key a, which has 8",
    )
    assert await waits(connection, behind) == (
        "key_limit",
        f"run {heavy}, which goes first, {free}",
    )


async def test_the_demand_of_a_key_is_what_fits_into_it(connection: Connection) -> None:
    await count_weight(connection, "a", 8)
    await enqueue_weights(connection, 9, 3, 3, 3, 1)

    assert await demand(connection) == 6
    node = await join(connection, slots=16)
    await claim_limited(connection, node, 16)
    assert await demand(connection) == 6


async def test_claimers_at_once_never_hold_more_weight_than_a_key_has(
    another: Connect, connection: Connection
) -> None:
    """Each looks right after its own claim, in a snapshot of its own."""
    await count_weight(connection, "*", 5)
    for weight in (1, 2, 3, 5):
        for key in ("a", "b"):
            await enqueue(connection, 12, concurrency_key=key, weight=weight)

    async def work(own: Connection) -> int:
        node, ended = await join(own, slots=6), 0
        while await own.fetchval("SELECT EXISTS (SELECT FROM pgcron.run WHERE state = 'ready')"):
            held = await claim_limited(own, node, 6, ahead=3)
            rows = await own.fetch(
                "SELECT sum(weight) FROM pgcron.run WHERE key_slot > 0 GROUP BY concurrency_key"
            )
            assert all(row[0] <= 5 for row in rows)
            await release(own, held[: len(held) // 3])
            ended += len(await finish(own, held[len(held) // 3 :]))
        return ended

    assert sum(await asyncio.gather(*[work(await another()) for _ in range(6)])) == 96


async def test_the_list_says_of_a_running_key_what_its_pattern_sets(connection: Connection) -> None:
    node = await join(connection, slots=16)
    await connection.execute(
        "SELECT pgcron.set_concurrency('customer-*', 8, 5, '1 minute', by_weight => true)"
    )
    await enqueue_weights(connection, 3, concurrency_key="customer-7")
    await claim_limited(connection, node, 16)

    rows = await overview.keys(connection)

    names = ("concurrency_key", "slots", "by_weight", "rate", "weight")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("customer-*", 8, True, 5, 0),
        ("customer-7", 8, True, 5, 3),
    ]
