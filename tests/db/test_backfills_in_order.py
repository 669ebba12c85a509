"""Backfills of schedules whose policies look at other runs, or at the clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha.errors import InvalidInput
from tests.db.control import (
    Connection,
    Node,
    claim,
    claim_overlapping,
    cursor_of,
    fail,
    finish,
    join,
    materialize,
    minutes,
    put_schedule,
)
from tests.db.test_backfills import DAY, ask, fires_of_runs, instants, row, runs, step
from tests.product.db import backfills


@pytest.fixture
async def node(connection: Connection) -> Node:
    return await join(connection)


async def put(connection: Connection, **columns: Any) -> int:
    return await put_schedule(
        connection, overlap="queue", max_attempts=1, depends_on_previous=True, **columns
    )


@pytest.mark.parametrize("if_ran", ["skip", "all"])
async def test_each_run_is_made_after_the_success_of_the_one_before(
    connection: Connection, node: Node, if_ran: str
) -> None:
    schedule = await put(connection)
    if if_ran == "all":  # the second time, of what ran already
        backfill = await ask(connection, 3)
        for number in range(3):
            await step(connection, backfill, instants(3)[number:], is_last=True)
            await finish(connection, (await claim_overlapping(connection, node))[0])
        assert await step(connection, backfill, [], is_last=True) == ("done", 0, 0)
    backfill = await ask(connection, 3, if_ran=if_ran)

    for number in range(3):
        left = instants(3)[number:]
        assert await step(connection, backfill, left, is_last=True) == ("open", 1, 1)
        assert await step(connection, backfill, left[1:], is_last=True) == ("open", 0, 0)
        assert await fires_of_runs(connection) == left[:1]
        await finish(connection, (await claim_overlapping(connection, node))[0])
    assert await step(connection, backfill, [], is_last=True) == ("done", 0, 0)
    assert (
        await connection.fetchval(
            "SELECT count(*) FROM pgcron.occurrence WHERE schedule_id = $1", schedule
        )
        == 3
    )


@pytest.mark.parametrize("if_ran", ["skip", "all"])
async def test_a_failure_pauses_it_until_somebody_resumes_it(
    connection: Connection, node: Node, if_ran: str
) -> None:
    schedule = await put(connection)
    if if_ran == "all":
        await connection.execute(
            "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)"
            " SELECT $1, unnest($2::timestamptz[]), 'skipped', 'so'",
            schedule,
            instants(3),
        )
    backfill = await ask(connection, 3, if_ran=if_ran, planned=3)
    await step(connection, backfill, instants(3), is_last=True)
    [first] = (await claim_overlapping(connection, node))[0]
    await fail(connection, [first])

    assert await step(connection, backfill, instants(3)[1:], is_last=True) == ("paused", 0, 0)
    assert await step(connection, backfill, instants(3)[1:], is_last=True) == ("paused", 0, 0)
    found = await row(connection, backfill)
    assert (found["failed"], found["changed_by"]) == (1, "pgcron_ha")
    assert f"run {first['id']}" in found["error"]["message"]
    assert "ended dead" in found["error"]["message"]
    assert f"runs retry {first['id']}" in found["error"]["hint"]

    await backfills.resume_backfill(connection, backfill, actor="ada")
    assert (await row(connection, backfill))["error"] is None
    assert await step(connection, backfill, instants(3)[1:], is_last=True) == ("open", 1, 1)
    assert await fires_of_runs(connection) == instants(3)[1:2]


async def test_the_failure_of_the_last_run_holds_nothing_up(
    connection: Connection, node: Node
) -> None:
    await put(connection)
    backfill = await ask(connection, 1, planned=1)
    await step(connection, backfill, instants(1), is_last=True)
    await fail(connection, (await claim_overlapping(connection, node))[0])

    assert await step(connection, backfill, [], is_last=True) == ("done", 0, 0)


async def test_without_the_policy_a_failure_holds_nothing_up(
    connection: Connection, node: Node
) -> None:
    await put_schedule(connection, overlap="allow", max_attempts=1)
    backfill = await ask(connection, 2, planned=2)
    await step(connection, backfill, instants(2))
    await fail(connection, await claim(connection, node))

    assert await step(connection, backfill, instants(2)[1:], is_last=True) == ("open", 1, 1)
    assert (await row(connection, backfill))["error"] is None


async def test_a_run_of_the_fire_before_that_is_not_over_is_waited_for(
    connection: Connection, node: Node
) -> None:
    schedule = await put(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", DAY - minutes(2))
    await materialize(connection, await cursor_of(connection, schedule), [DAY - minutes(1)])
    await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = 'overlap'")
    [before] = (await claim_overlapping(connection, node))[0]
    backfill = await ask(connection, 2)

    assert await step(connection, backfill, instants(2)) == ("open", 0, 0)
    await finish(connection, [before])
    assert await step(connection, backfill, instants(2)) == ("open", 1, 1)


@pytest.mark.parametrize("given", [{"direction": "backward"}, {"parallelism": 2}])
async def test_another_order_is_refused(connection: Connection, given: dict[str, Any]) -> None:
    await put(connection)

    with pytest.raises(InvalidInput, match="with depends_on_previous") as refused:
        await ask(connection, 3, **given)
    assert refused.value.detail is not None
    assert "one after the other" in refused.value.detail
    await connection.execute("UPDATE pgcron.schedule SET depends_on_previous = false")
    assert await ask(connection, 3, **given) > 0


async def test_jitter_and_deadlines_of_starts_are_of_fires_on_time_and_not_of_backfills(
    connection: Connection, node: Node
) -> None:
    await put_schedule(
        connection,
        overlap="allow",
        jitter=timedelta(seconds=30),
        start_deadline=timedelta(minutes=1),
    )
    await step(connection, await ask(connection, 1), instants(1))

    made = await runs(connection)
    assert [(run["scheduled_for"], run["expire_at"]) for run in made] == [(DAY, None)]
    assert all(run["due_at"] <= run["created_at"] for run in made)
    assert len(await claim(connection, node)) == 1
