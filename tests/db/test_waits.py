"""Rule 22 of admission: what a run waits for, as one word and one sentence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.db.control import (
    Connection,
    admit,
    claim,
    claim_limited,
    database_now,
    enqueue,
    join,
    minutes,
    put_schedule,
)
from tests.product.db import pages_runs as ask

Making = Callable[[Connection], Awaitable[int]]


async def waits(connection: Connection, run: int) -> tuple[str | None, str | None]:
    row = await connection.fetchrow(
        "SELECT waits_for, waits_detail FROM pgcron.runs WHERE id = $1", run
    )
    assert row is not None
    return row["waits_for"], row["waits_detail"]


async def one(connection: Connection, **columns: Any) -> int:
    [run] = await enqueue(connection, **columns)
    return run


async def in_a_paused_queue(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.pause_queue('default', 'a move', actor => 'ana')")
    return await one(connection)


async def in_a_paused_cluster(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.pause_cluster(actor => 'ana')")
    return await one(connection)


async def after_a_restore(connection: Connection) -> int:
    await connection.execute("UPDATE pgcron.cluster SET quarantine_until = now() + interval '1 h'")
    return await one(connection)


async def after_a_fire(connection: Connection) -> int:
    schedule = await put_schedule(connection, overlap="queue", depends_on_previous=True)
    return await one(
        connection,
        origin="schedule",
        schedule_id=schedule,
        scheduled_for=await database_now(connection),
        overlap="queue",
        state="blocked",
        gate="previous",
    )


async def of_a_broken_handler(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.set_breaker('py:work', 3, '1 min', '1 min')")
    await connection.execute(
        "UPDATE pgcron.breaker SET state = 'open', opened_at = now(), reason = '3 failures in 1 m',"
        " open_until = now() + interval '30 s', openings = 1, last_error = 'no answer'"
    )
    return await one(connection)


async def that_nobody_offers(connection: Connection) -> int:
    return await one(connection, handler="py:unknown", requires=["gpu", "ssd"])


async def that_weighs_too_much(connection: Connection) -> int:
    return await one(connection, weight=17, concurrency_key="*weight 17")


async def beside_a_run_of_its_schedule(connection: Connection) -> int:
    schedule = await put_schedule(connection, overlap="queue")
    columns = {"origin": "manual", "schedule_id": schedule, "overlap": "queue"}
    await one(connection, **columns)
    await admit(connection)
    return await one(connection, **columns)


async def beside_one_that_executes(connection: Connection, **columns: Any) -> int:
    await one(connection, **columns)
    await claim_limited(connection, await join(connection), 1)
    return await one(connection, **columns)


async def in_a_full_queue(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 1)")
    return await beside_one_that_executes(connection)


async def of_a_full_key(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.set_concurrency('eu', 1)")
    return await beside_one_that_executes(connection, concurrency_key="eu")


async def over_a_rate(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.set_queue('default', rate => 1, per => '1 h')")
    return await beside_one_that_executes(connection)


async def over_the_rate_of_its_key(connection: Connection) -> int:
    await connection.execute("SELECT pgcron.set_concurrency('eu', NULL, rate => 1, per => '2 h')")
    return await beside_one_that_executes(connection, concurrency_key="eu")


async def beside_a_node_that_claims_nothing(connection: Connection) -> int:
    await connection.execute(
        """UPDATE pgcron.node SET name = 'n1', health =
           '{"failing": [{"service": "dispatcher", "error": "no rights", "what": ""}],
             "without": []}'"""
    )
    return await one(connection)


async def that_a_cordoned_node_offers(connection: Connection) -> int:
    await connection.execute("UPDATE pgcron.node SET name = 'n1', state = 'cordoned'")
    return await one(connection)


async def without_a_free_slot(connection: Connection) -> int:
    return await one(connection)


@pytest.mark.parametrize(
    ("making", "word", "sentence"),
    [
        (in_a_paused_queue, "paused", "queue default is paused by ana (a move)"),
        (in_a_paused_cluster, "paused", "the whole cluster is paused by ana"),
        (after_a_restore, "paused", "the cluster was restored and begins nothing for 60 m"),
        (after_a_fire, "previous", "the fire before it is not over"),
        (
            of_a_broken_handler,
            "breaker",
            "the circuit of py:work is open for another 30 s: 3 failures in 1 m, last: no answer",
        ),
        (
            that_nobody_offers,
            "no_node",
            "needs gpu, ssd: no live node that offers 'py:unknown' for queue 'default' announces"
            " it",
        ),
        (
            that_weighs_too_much,
            "weight",
            "needs 17 slots: no live node that offers 'py:work' for queue 'default' has so many",
        ),
        (
            that_a_cordoned_node_offers,
            "no_node",
            "no live node offers 'py:work' for queue 'default' (node n1 does, and is cordoned)",
        ),
        (
            beside_a_run_of_its_schedule,
            "overlap",
            "run 1 of the same schedule is not over (overlap: queue)",
        ),
        (in_a_full_queue, "queue_limit", "queue default executes 1 already, as many as it may"),
        (of_a_full_key, "key_limit", "every slot of its concurrency key eu is taken"),
        (over_a_rate, "rate", "queue default has used up its rate; the next starts in 60 m"),
        (
            over_the_rate_of_its_key,
            "rate",
            "concurrency key eu has used up its rate; the next starts in 2 h",
        ),
        (beside_a_node_that_claims_nothing, "node_trouble", "node n1 claims nothing: no rights"),
        (without_a_free_slot, "slots", "it waits for a free slot"),
    ],
)
async def test_22_a_run_says_what_it_waits_for(
    connection: Connection, making: Making, word: str, sentence: str
) -> None:
    await join(connection, slots=16)

    run = await making(connection)

    assert await waits(connection, run) == (word, sentence)


async def test_22_what_is_not_due_or_executes_waits_for_nothing(connection: Connection) -> None:
    node = await join(connection)
    later = await one(connection, due_at=await database_now(connection) + minutes(1))
    running = await one(connection)
    await claim(connection, node, 1)

    assert await waits(connection, later) == (None, None)
    assert await waits(connection, running) == (None, None)


async def test_22_a_gate_that_is_open_again_is_said_to_open(connection: Connection) -> None:
    await join(connection)
    run = await one(connection, state="blocked", gate="no_node")

    assert await waits(connection, run) == (
        "blocked",
        "what kept it is over: it is let go within seconds",
    )


async def test_22_a_limit_that_breaks_its_rules_is_named(connection: Connection) -> None:
    await join(connection)
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 1)")
    await connection.execute(
        "ALTER TABLE pgcron.queue DROP CONSTRAINT a_queue_runs_1_to_100000_at_once;"
        "UPDATE pgcron.queue SET max_running = -1"
    )
    run = await one(connection)

    word, sentence = await waits(connection, run)

    assert word == "limit_trouble"
    assert "queue 'default' waits until it is mended: max_running must be" in str(sentence)


async def test_22_a_list_says_of_each_run_what_the_run_says_alone(connection: Connection) -> None:
    tomorrow = await database_now(connection) + timedelta(days=1)
    of_a_key = await of_a_full_key(connection)
    for columns in (
        {},
        {"handler": "py:unknown"},
        {"handler": "py:unknown", "queue": "mail"},
        {"handler": "py:unknown", "requires": ["gpu"]},
        {"weight": 17, "concurrency_key": "*weight 17"},
        {"due_at": tomorrow},
    ):
        await enqueue(connection, 2, **columns)

    page = await ask.newest_runs(connection, ask.RunFilter(), ask.Position())
    said = {
        row["id"]: (row["waits_for"], row["waits_detail"])
        for row in await ask.detailed(connection, page)
    }

    assert said == {run: await waits(connection, run) for run in said}
    assert of_a_key in said
    assert {word for word, _ in said.values()} > {"no_node", "key_limit", "weight", None}
