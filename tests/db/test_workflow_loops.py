"""Steps that are repeated: each turn is a run of its own, with all of its retries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
import pytest

from tests.db.control import Connection, Node, Row, claim_both, fail, join, kill, reap
from tests.db.workflows import Stage, stage, step

BUSY: Final = {"busy": True}
DONE: Final = {"busy": False}


@pytest.fixture
async def flow(connection: Connection) -> AsyncIterator[Stage]:
    made = await stage(connection)
    yield made
    await made.check()


async def start(flow: Stage, at_most: int = 3, **options: Any) -> int:
    """A loop `a` with no pause between its turns, and a step after it."""
    repeat = {"while": "$.busy == true", "at_most": at_most, "every": "1 microsecond"}
    loop = step("a", repeat=repeat, **{"max_attempts": 2, **options})
    return await flow.run(loop, step("b", "a"))


async def take(flow: Stage, node: Node | None = None) -> Row:
    """The one run that may begin is claimed."""
    [row] = await claim_both(flow.connection, node or flow.node, 10)
    return row


async def say(flow: Stage, row: Row, result: Any) -> None:
    """The run has succeeded; nobody has gone on with its workflow."""
    await flow.end([row], {row["id"]: "a"}, {"a": result})


async def replaced(flow: Stage) -> Node:
    """The node is gone, and another one has taken its runs over."""
    gone, flow.node = flow.node, await join(flow.connection, handlers=flow.node.handlers)
    await kill(flow.connection, gone)
    await reap(flow.connection)
    return gone


@pytest.mark.parametrize(
    ("happens", "options", "state", "attempts"),
    [
        ("busy busy done", {}, "succeeded", [1, 1, 1]),
        ("fails busy fails busy fails done", {}, "succeeded", [2, 2, 2]),
        ("lost busy lost busy lost done", {}, "succeeded", [2, 2, 2]),
        ("busy fails fails", {}, "dead", [1, 2]),
        ("fails busy lost fails", {}, "dead", [2, 2]),
        ("busy busy busy", {}, "dead", [1, 1, 1]),
        ("busy done", {"delivery": "at_most_once", "max_attempts": 1}, "succeeded", [1, 1]),
        ("busy lost", {"delivery": "at_most_once", "max_attempts": 1}, "lost", [1, 1]),
        ("fails busy done", {"delivery": "transactional"}, "succeeded", [2, 1]),
    ],
)
async def test_each_turn_has_all_retries(
    flow: Stage, happens: str, options: dict[str, Any], state: str, attempts: list[int]
) -> None:
    """Attempts that fail or are lost count for their own turn alone, and turns for the loop."""
    run = await start(flow, **options)
    taken: list[Row] = []
    for what in happens.split():
        taken.append(await take(flow))
        if what == "fails":
            await fail(flow.connection, taken[-1:], retry_after=0)
        elif what == "lost":
            await replaced(flow)
        else:
            await say(flow, taken[-1], BUSY if what == "busy" else DONE)
        await flow.advance()

    assert (await flow.states(run))["a"] == state
    runs = list(dict.fromkeys(row["id"] for row in taken))
    assert [sum(row["id"] == each for row in taken) for each in runs] == attempts
    # what an idempotency key is made of: the same for the attempts of a turn, and for no other turn
    assert len({(row["id"], row["uuid"]) for row in taken}) == len(runs)
    assert len({row["uuid"] for row in taken}) == len(runs)
    await flow.work()


async def test_a_zombie_of_a_turn_begins_no_other(flow: Stage) -> None:
    run = await start(flow, at_most=2)
    late = await take(flow)
    await replaced(flow)
    again = await take(flow)

    await say(flow, late, BUSY)
    await flow.advance()
    assert await claim_both(flow.connection, flow.node, 10) == []

    await say(flow, again, BUSY)
    await flow.advance()
    second = await take(flow)
    for row in (late, again):
        await say(flow, row, BUSY)
    await flow.advance()
    assert await claim_both(flow.connection, flow.node, 10) == []
    await say(flow, second, DONE)
    await flow.work()
    assert await flow.states(run) == {"a": "succeeded", "b": "succeeded"}


async def test_a_node_that_ends_between_two_turns_keeps_none_from_beginning(flow: Stage) -> None:
    run = await start(flow)
    await say(flow, await take(flow), BUSY)
    await replaced(flow)

    await flow.advance()
    row = await take(flow)
    assert row["attempt"] == 1
    await say(flow, row, DONE)
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_a_loop_that_is_cleared_counts_its_turns_anew(flow: Stage) -> None:
    run = await start(flow, at_most=2)
    await say(flow, await take(flow), BUSY)
    await flow.advance()
    row = await take(flow)
    await flow.connection.execute("SELECT pgcron.clear_step($1, 'a')", run)
    await flow.advance()
    assert await claim_both(flow.connection, flow.node, 10) == []

    # the turn that was asked to stop ends as if it had to be followed by one
    await say(flow, row, BUSY)
    await flow.connection.execute("UPDATE pgcron.workflow_run SET look_at = now()")
    await flow.advance()
    for _ in range(2):
        await say(flow, await take(flow), BUSY)
        await flow.advance()
    assert await flow.states(run) == {"a": "dead", "b": "upstream_failed"}


async def test_a_service_ends_a_turn_in_its_own_transaction(flow: Stage) -> None:
    """No turn begins before it commits, and none if it does not."""
    run = await start(flow)
    row = await take(flow)
    ends = "SELECT pgcron.finish_run($1, $2, result => $3)"
    values = row["id"], row["token"], json.dumps(BUSY)
    transaction = flow.connection.transaction()
    await transaction.start()
    await flow.connection.execute(ends, *values)
    await transaction.rollback()
    await flow.advance()
    assert await claim_both(flow.connection, flow.node, 10) == []

    await flow.connection.execute(ends, *values)
    await flow.advance()
    assert (await take(flow))["id"] != row["id"]
    with pytest.raises(asyncpg.PostgresError) as refused:
        await flow.connection.execute(ends, *values)
    assert refused.value.sqlstate == "PC012"
    assert (await flow.states(run))["a"] == "running"
